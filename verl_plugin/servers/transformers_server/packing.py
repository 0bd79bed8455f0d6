"""New tokens of several rows, laid end to end without padding, and the attention of each to its own row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

from verl_plugin.servers.transformers_server.key_values import KeyValues

# Rows that look back in one call, by device. One is read where it stands, not copied and not padded; on a GPU calls cost more
ROWS_AT_ONCE = {"cpu": 1, "cuda": 32}
MASK_PLACES = 2**26  # of one such call, 128 MiB in bfloat16: the mask is as large as the rows' queries times the keys


class Span(NamedTuple):
    """A row's new tokens: ``count``, at least one, after the ``known`` ones that stand in memory from place ``start`` on."""

    start: int
    known: int
    count: int

    @property
    def width(self) -> int:
        return self.known + self.count


class Packing:
    """The tokens of one forward pass: those of the spans, end to end.

    Attributes:
        positions: of each token in its row, (tokens,).
        last: the index of each row's last token, (rows,).
    """

    def __init__(self, memory: KeyValues, spans: Sequence[Span]) -> None:
        self._memory, self._spans, device = memory, spans, memory.buffer.device
        start, known, count = torch.tensor(spans, device=device).T
        ends = count.cumsum(0)
        self.last = ends - 1
        index = torch.arange(sum(span.count for span in spans), device=device)
        self.positions = index + (known + count - ends).repeat_interleave(count)
        self._places = self.positions + start.repeat_interleave(count)

    @cached_property
    def ends(self) -> Packing:
        """The last token of each row alone."""
        if len(self.positions) == len(self._spans):
            return self
        spans = [Span(span.start, span.width - 1, 1) for span in self._spans]
        return Packing(self._memory, spans)

    def write(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """Put away the tokens' keys and values, each (tokens, key heads, head size)."""
        keys, values = self._memory.buffer[layer]
        keys.index_copy_(0, self._places, key)
        values.index_copy_(0, self._places, value)

    def attend(self, layer: int, query: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Each token looks at its row up to itself, of which all is written: (tokens, heads, head size) -> the same.

        Query heads that share a key head stand side by side as if they were tokens, so that no key is repeated for them.
        """
        keys, values = self._memory.buffer[layer, :, None].transpose(2, 3)  # (1, key heads, place, head size)
        heads, sharing = keys.shape[1], self._memory.sharing
        side_by_side = query.unflatten(1, (heads, sharing)).transpose(0, 1).flatten(1, 2)[None]
        seen = [bucket(side_by_side, keys, values, scale) for bucket in self._buckets]
        return torch.cat(seen, dim=2)[0].unflatten(1, (-1, sharing)).transpose(0, 1).flatten(1, 2)

    @cached_property
    def _buckets(self) -> Sequence[_Alone | _Together]:
        rows = ROWS_AT_ONCE[self._memory.buffer.device.type]
        spans = self._spans if rows == 1 else self._pieces()
        firsts = list(accumulate((span.count for span in spans), initial=0))
        if rows == 1:
            return [_Alone(self._memory, *row) for row in zip(spans, firsts, strict=False)]
        return [_Together(self._memory, spans[i:j], firsts[i]) for i, j in pairwise(self._cuts(spans, rows))]

    def _pieces(self) -> list[Span]:
        """The spans, one whose mask alone would be too large in parts: all keys are written before any is looked at."""
        pieces = []
        for start, known, count in self._spans:
            size = max(1, MASK_PLACES // ((known + count) * self._memory.sharing))
            pieces += [Span(start, known + i, min(size, count - i)) for i in range(0, count, size)]
        return pieces

    def _cuts(self, spans: Sequence[Span], rows: int) -> list[int]:
        """Where buckets begin, and the end: at most so many rows in one, and not too large a mask."""
        cuts, most, widest = [0], 0, 0
        for index, span in enumerate(spans):
            most, widest, held = max(most, span.count), max(widest, span.width), index - cuts[-1]
            places = (held + 1) * most * widest * self._memory.sharing
            if held and (held == rows or places > MASK_PLACES):
                cuts.append(index)
                most, widest = span.count, span.width
        return [*cuts, len(spans)]


class _Alone:
    """A row whose keys and values are read where they stand. ``first``: of its tokens among all of the pass."""

    def __init__(self, memory: KeyValues, span: Span, first: int) -> None:
        self._mask = None
        if span.count > 1:
            positions = torch.arange(span.known, span.width, device=memory.buffer.device)
            self._mask = _mask(positions[None], span.width, memory)
        self._queries = first * memory.sharing, span.count * memory.sharing
        self._places = span.start, span.width

    def __call__(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """``query`` (1, key heads, tokens * sharing, head size) of all the pass -> the same of these rows."""
        query = query.narrow(2, *self._queries)
        keys, values = keys.narrow(2, *self._places), values.narrow(2, *self._places)
        return scaled_dot_product_attention(query, keys, values, attn_mask=self._mask, scale=scale)


class _Together:
    """Neighbouring rows whose keys and values are copied side by side. A short one repeats its last token and its last place:
    the former is left out of the result, the latter hidden, but must be finite."""

    def __init__(self, memory: KeyValues, spans: Sequence[Span], first: int) -> None:
        device, sharing = memory.buffer.device, memory.sharing
        start, known, count = torch.tensor(spans, device=device).T[:, :, None]
        index = torch.arange(max(span.count for span in spans), device=device)
        places = torch.arange(max(span.width for span in spans), device=device)
        self._places = start + torch.minimum(places, known + count - 1)
        self._mask = _mask(known + index, len(places), memory)
        tokens = first + count.cumsum(0) - count + torch.minimum(index, count - 1)
        self._queries = (tokens[..., None] * sharing + torch.arange(sharing, device=device)).flatten(1)
        self._real = (index < count).repeat_interleave(sharing, dim=1).flatten().nonzero().squeeze(1)

    def __call__(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """As ``_Alone``."""
        query = query[0][:, self._queries].transpose(0, 1)
        keys, values = keys[0][:, self._places].transpose(0, 1), values[0][:, self._places].transpose(0, 1)
        seen = scaled_dot_product_attention(query, keys, values, attn_mask=self._mask, scale=scale)
        return seen.transpose(0, 1).flatten(1, 2)[:, self._real][None]


def _mask(positions: torch.Tensor, width: int, memory: KeyValues) -> torch.Tensor:
    """What to add to the scores of queries at ``positions`` (rows, n): minus infinity where a key comes after its query.
    (rows, 1, n * sharing, width)"""
    queries = positions.repeat_interleave(memory.sharing, dim=1)[:, None, :, None]
    hidden = torch.arange(width, device=positions.device) > queries
    return memory.buffer.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
