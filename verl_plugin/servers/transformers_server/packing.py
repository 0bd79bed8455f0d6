"""Packing of several rows' new tokens, end to end without padding, and each row's attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import torch

from turngrid.verl_plugin.bf16 import attend
from turngrid.verl_plugin.servers.transformers_server.key_values import KeyValues

# Rows in one attention call; 32 if not listed. A row alone needs neither a copy nor padding. On a
# GPU, and in bf16 on a CPU, where products are fast, a call costs more than a copy.
ROWS_AT_ONCE = {("cpu", torch.float32): 1, ("cpu", torch.bfloat16): 16}
MASK_ELEMENTS = 2**26  # mask elements of one call (queries x keys): 128 MiB in bfloat16
CHUNK = 64  # positions that are copied together; it divides ``BLOCK``


class Span(NamedTuple):
    """A row's ``count`` >= 1 new tokens.

    They follow ``known`` tokens, whose keys and values begin at buffer position ``start``.
    """

    start: int
    known: int
    new: int

    @property
    def width(self) -> int:
        return self.known + self.new


class Packing:
    """The tokens of one forward pass: those of all spans, end to end."""

    def __init__(self, memory: KeyValues, spans: Sequence[Span]) -> None:
        self._memory, self._spans, device = memory, spans, memory.buffer.device
        start, known, count = torch.tensor(spans, device=device).T
        ends = count.cumsum(0)
        self.last = ends - 1  # (rows,) the index of each row's last token
        index = torch.arange(sum(span.new for span in spans), device=device)
        self.positions = index + (known + count - ends).repeat_interleave(count)  # (tokens,) in their rows
        self._indices = self.positions + start.repeat_interleave(count)

    @property
    def ends(self) -> Packing:
        """Return the packing of each row's last token alone.

        It is not cached: a packing that holds itself, and with it the keys' and values' buffer,
        is freed only when Python looks for cycles.
        """
        if len(self.positions) == len(self._spans):
            return self
        spans = [Span(span.start, span.width - 1, 1) for span in self._spans]
        return Packing(self._memory, spans)

    def write(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """Store the tokens' keys and values, each (tokens, key heads, head size)."""
        keys, values = self._memory.buffer[layer]
        keys.index_copy_(1, self._indices, key.transpose(0, 1))
        values.index_copy_(1, self._indices, value.transpose(0, 1))

    def attend(self, layer: int, query: torch.Tensor, scale: float | None = None) -> torch.Tensor:
        """Attend from each token to its row up to itself; (tokens, heads, head size) in and out.

        All keys and values must be stored. Query heads that share a key head are laid out as
        tokens, which avoids copying keys for them.
        """
        sharing = self._memory.sharing
        side_by_side = query.unflatten(1, (-1, sharing)).transpose(0, 1).flatten(1, 2)[None]
        queries = side_by_side.split([bucket.tokens * sharing for bucket in self._buckets], dim=2)
        seen = [bucket(layer, own, scale) for bucket, own in zip(self._buckets, queries, strict=True)]
        return torch.cat(seen, dim=1)[0].unflatten(0, (-1, sharing)).transpose(1, 2).flatten(1, 2)

    @cached_property
    def _buckets(self) -> Sequence[_Alone | _Together]:
        buffer, spans = self._memory.buffer, self._pieces()
        rows = ROWS_AT_ONCE.get((buffer.device.type, buffer.dtype), 32)
        if rows == 1:
            states = buffer[:, :, None].flatten(0, 1)
            mask, sharing = self._widest_mask(spans), self._memory.sharing
            return [_Alone(states, span, mask, sharing) for span in spans]
        return [_Together(self._memory, spans[i:j]) for i, j in pairwise(self._cuts(spans, rows))]

    def _widest_mask(self, spans: Sequence[Span]) -> torch.Tensor:
        """Return one mask of which each row uses a part; it stays in the processor's cache."""
        known, count = max(span.known for span in spans), max(span.new for span in spans)
        positions = torch.arange(known, known + count, device=self._memory.buffer.device)
        return _mask(positions[None], known + count, self._memory)

    def _pieces(self) -> list[Span]:
        """Return the spans, cut if their mask would exceed ``MASK_ELEMENTS``."""
        pieces = []
        for start, known, count in self._spans:
            size = max(1, MASK_ELEMENTS // ((known + count) * self._memory.sharing))
            pieces += [Span(start, known + i, min(size, count - i)) for i in range(0, count, size)]
        return pieces

    def _cuts(self, spans: Sequence[Span], rows: int) -> list[int]:
        """Return the bounds of buckets of up to ``rows`` rows and ``MASK_ELEMENTS``."""
        cuts, most, widest = [0], 0, 0
        for index, span in enumerate(spans):
            most, widest, held = max(most, span.new), max(widest, span.width), index - cuts[-1]
            elements = (held + 1) * most * widest * self._memory.sharing
            if held and (held == rows or elements > MASK_ELEMENTS):
                cuts.append(index)
                most, widest = span.new, span.width
        return [*cuts, len(spans)]


class _Alone:
    """A row whose keys and values are read from the buffer, without a copy.

    Args:
        states: (keys and values of each layer in turn, 1, key heads, position, head size).
        mask: (1, 1, n * sharing, positions); the row uses the part for its number of known tokens.
    """

    def __init__(self, states: torch.Tensor, span: Span, mask: torch.Tensor, sharing: int) -> None:
        self.tokens, self._mask = span.new, None
        self._states = states.narrow(3, span.start, span.width).unbind()
        if span.new > 1:
            first = mask.shape[3] - mask.shape[2] // sharing - span.known
            self._mask = mask[:, :, : span.new * sharing, first : first + span.width]

    def __call__(self, layer: int, query: torch.Tensor, scale: float | None) -> torch.Tensor:
        """Attend; query and result are (1, key heads, tokens * sharing, head size)."""
        keys, values = self._states[2 * layer : 2 * layer + 2]
        return attend(query, keys, values, attn_mask=self._mask, scale=scale).transpose(1, 2)


class _Together:
    """Neighbouring rows whose keys and values are copied into one padded tensor, in chunks.

    Queries are padded with a row's last token, which is cut from the result. Keys are padded with
    its last chunk, which is masked.
    """

    def __init__(self, memory: KeyValues, spans: Sequence[Span]) -> None:
        device, sharing = memory.buffer.device, memory.sharing
        self.tokens, self._memory, self._rows = sum(span.new for span in spans), memory, len(spans)
        start, known, count = torch.tensor(spans, device=device).T[:, :, None]
        index = torch.arange(max(span.new for span in spans), device=device)
        chunks = torch.arange(-(-max(span.width for span in spans) // CHUNK), device=device)
        self._chunks = (start // CHUNK + torch.minimum(chunks, (known + count - 1) // CHUNK)).flatten()
        self._mask = _mask(known + index, len(chunks) * CHUNK, memory)
        tokens = count.cumsum(0) - count + torch.minimum(index, count - 1)
        self._queries = (tokens[..., None] * sharing + torch.arange(sharing, device=device)).flatten()
        self._real = (index < count).repeat_interleave(sharing, dim=1).flatten().nonzero().squeeze(1)

    def __call__(self, layer: int, query: torch.Tensor, scale: float | None) -> torch.Tensor:
        query = query[0].index_select(1, self._queries).unflatten(1, (self._rows, -1))
        keys, values = (self._copied(states) for states in self._memory.buffer[layer])
        seen = attend(query, keys, values, attn_mask=self._mask[:, 0], scale=scale)
        return seen.flatten(1, 2).index_select(1, self._real).transpose(0, 1)[None]

    def _copied(self, states: torch.Tensor) -> torch.Tensor:
        """Copy (heads, positions, head size) to (heads, rows, width, head size)."""
        chunks = states.unflatten(1, (-1, CHUNK)).flatten(2).index_select(1, self._chunks)
        return chunks.view(len(states), self._rows, -1, states.shape[-1])


def _mask(positions: torch.Tensor, width: int, memory: KeyValues) -> torch.Tensor:
    """Return the mask (rows, 1, n * sharing, width) for queries at ``positions`` (rows, n).

    It is minus infinity where a key is later than its query.
    """
    queries = positions.repeat_interleave(memory.sharing, dim=1)[:, None, :, None]
    hidden = torch.arange(width, device=positions.device) > queries
    return memory.buffer.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
