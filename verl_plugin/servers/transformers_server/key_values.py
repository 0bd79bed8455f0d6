"""Cache of keys and values from turn to turn: one buffer, with a stretch for each episode."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from turngrid.rollouts.sampling import SampleRequest
from turngrid.verl_plugin.threads import give_back

BLOCK = 256  # tokens; stretches are multiples of it, so that an episode seldom outgrows its own


@dataclass
class Stretch:
    """``size`` positions of the buffer from ``start``; the first ``len(ids)`` are filled."""

    start: int
    size: int
    ids: Sequence[int] = field(default=(), repr=False)


class KeyValues:
    """Stretches by request id. If memory is short, the least recently used are dropped.

    ``buffer`` is (layer, key or value, head, position, head size). A new stretch is filled with 0:
    attention reads positions that are not yet written, and masks them. A batch that needs more than
    ``limit_bytes`` gets more.
    """

    def __init__(self, model: Any, limit_bytes: int) -> None:
        self._config = config = model.config
        self._key_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self.sharing = config.num_attention_heads // self._key_heads  # query heads of a key head
        self.buffer = next(model.parameters()).new_empty(self._shape(0))
        self.limit_bytes = limit_bytes
        self.clear()

    def _shape(self, positions: int) -> tuple[int, ...]:
        config = self._config
        head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return config.num_hidden_layers, 2, self._key_heads, positions, head_size

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Drop all stretches, but not the buffer's memory."""
        self._kept: dict[str, Stretch] = {}
        self._taken = bytearray(self.limit_bytes // self._block_bytes)  # 1 if a block belongs to a stretch

    def release(self) -> None:
        """Drop all stretches and the buffer's memory."""
        self.clear()
        self.buffer = self.buffer.new_empty(self._shape(0))
        give_back()

    @property
    def nbytes(self) -> int:
        return sum(stretch.size for stretch in self._kept.values()) * self.token_bytes

    @property
    def token_bytes(self) -> int:
        return math.prod(self._shape(1)) * self.buffer.element_size()

    @property
    def _block_bytes(self) -> int:
        return BLOCK * self.token_bytes

    def take(self, requests: Sequence[SampleRequest]) -> list[Stretch]:
        """Lend each request a stretch for prompt and answer, until it is ``put`` back.

        Its ``ids`` are the cached prefix of the prompt, without the prompt's last id.
        """
        kept = [self._kept.pop(request.request_id, None) for request in requests]
        return [self._fitted(stretch, request) for stretch, request in zip(kept, requests, strict=True)]

    def put(self, request_id: str, stretch: Stretch, ids: Sequence[int]) -> None:
        """Cache a stretch that now holds ``ids``, if the memory limit allows it."""
        if old := self._kept.pop(request_id, None):
            self._free(old)
        stretch.ids = ids
        self._kept[request_id] = stretch
        while len(self._taken) * self._block_bytes > self.limit_bytes < self.nbytes:  # a large batch exceeded the limit
            self._evict()

    def copy(self, source: Stretch, target: Stretch, first: int, last: int) -> None:
        """Copy the states of tokens ``first`` to ``last``, where both stretches have equal ids."""
        start, end = source.start + first, source.start + last
        self.buffer[:, :, :, target.start + first : target.start + last] = self.buffer[:, :, :, start:end]

    def _fitted(self, stretch: Stretch | None, request: SampleRequest) -> Stretch:
        need = len(request.prompt_ids) + request.max_tokens
        if stretch is None:
            return self._new(need)
        known = min(common_length(stretch.ids, request.prompt_ids), len(request.prompt_ids) - 1)
        if stretch.size < need:
            small, stretch = stretch, self._new(need)
            self.copy(small, stretch, 0, known)
            self._free(small)
        stretch.ids = request.prompt_ids[:known]
        return stretch

    def _new(self, tokens: int) -> Stretch:
        blocks = -(-tokens // BLOCK)
        while (first := self._taken.find(bytes(blocks))) < 0:
            if self._kept:
                self._evict()
            else:
                self._taken.extend(bytes(blocks))
        self._taken[first : first + blocks] = b"\1" * blocks
        self._fill(len(self._taken) * BLOCK)
        stretch = Stretch(first * BLOCK, blocks * BLOCK)
        self.buffer[:, :, :, stretch.start : stretch.start + stretch.size] = 0
        return stretch

    def _fill(self, positions: int) -> None:
        """Grow the buffer to ``positions``. Memory that is never written costs nothing on a CPU."""
        have = self.buffer.shape[3]
        if positions > have:
            more = max(positions, have + have // 4)  # grow by a margin, since many rows may each need a little more
            old, self.buffer = self.buffer, self.buffer.new_empty(self._shape(-(-more // BLOCK) * BLOCK))
            self.buffer[:, :, :, :have] = old

    def _evict(self) -> None:
        self._free(self._kept.pop(next(iter(self._kept))))

    def _free(self, stretch: Stretch) -> None:
        first, blocks = stretch.start // BLOCK, stretch.size // BLOCK
        self._taken[first : first + blocks] = bytes(blocks)


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    n = min(len(a), len(b))
    if list(a[:n]) == list(b[:n]):
        return n
    return next(i for i in range(n) if a[i] != b[i])
