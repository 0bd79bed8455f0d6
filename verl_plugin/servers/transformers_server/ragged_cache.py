"""Keys and values of rows of different lengths, each row written where it stands.

Column j of a row is its token j. Columns beyond a row's end hold rubbish that the attention mask hides; the last column
takes what padding writes. One buffer serves all batches, since allocating it anew would cost as much as reading it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

COLUMN_STEP = 128  # columns grow in steps, so that a few more tokens seldom mean a new buffer


class _RaggedLayer(CacheLayerMixin):
    """One layer's view of the buffer."""

    def __init__(self, owner: RaggedCache, index: int) -> None:
        super().__init__()
        self.owner, self.index = owner, index

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None: ...

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        owner = self.owner
        keys, values = owner.buffer[self.index, :, : owner.rows]
        keys[owner.row_index, :, owner.positions] = key_states.transpose(1, 2)
        values[owner.row_index, :, owner.positions] = value_states.transpose(1, 2)
        return keys[:, :, : owner.width], values[:, :, : owner.width]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.width, 0

    def get_seq_length(self) -> int:
        return self.owner.width

    def get_max_cache_shape(self) -> int:
        return self.owner.columns


class RaggedCache(Cache):
    """A transformers cache. ``begin`` a batch, ``aim`` before each forward pass, ``keep`` the rows that go on."""

    def __init__(self, model: Any) -> None:
        config = model.config
        head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._shape = (config.num_hidden_layers, 2, config.num_key_value_heads, head_size)
        self._like = next(model.parameters())
        self.rows = self.columns = self.width = 0
        self.release()
        super().__init__(layers=[_RaggedLayer(self, index) for index in range(config.num_hidden_layers)])

    def release(self) -> None:
        """Give the buffer back, which is a must where it may hold what is not finite: that cannot be masked."""
        self.buffer = self._zeros(0, 0)

    def _zeros(self, rows: int, columns: int) -> torch.Tensor:
        """(layer, key or value, row, head, column, head size); zeros, since rubbish must be finite to be hidden."""
        layers, two, heads, size = self._shape
        return self._like.new_zeros((layers, two, rows, heads, columns, size))

    def begin(self, rows: int, columns: int) -> None:
        """Make room for ``rows`` rows of ``columns`` tokens, and one column for padding."""
        have_rows, have_columns = self.buffer.shape[2], self.buffer.shape[4]
        if rows > have_rows or columns + 1 > have_columns:
            self.release()
            self.buffer = self._zeros(
                max(rows, have_rows), max(-(-(columns + 1) // COLUMN_STEP) * COLUMN_STEP, have_columns)
            )
        self.rows, self.columns = rows, self.buffer.shape[4]

    def aim(self, positions: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Say where the next tokens (rows, n) stand; those not ``real`` are padding.

        Returns:
            What to add to the attention scores, (rows, 1, n, width): 0 up to a token's own column, else minus infinity.
        """
        self.width = int(positions[real].max()) + 1
        self.row_index = torch.arange(self.rows, device=positions.device)[:, None]
        self.positions = torch.where(real, positions, self.columns - 1)
        seen = torch.where(real, positions, 0)
        hidden = torch.arange(self.width, device=positions.device) > seen[:, None, :, None]
        return torch.zeros(hidden.shape, dtype=self._like.dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)

    def load(self, row: int, prefix: torch.Tensor) -> None:
        """Fill a row's first columns with what ``save`` gave, (layer, key or value, head, column, head size)."""
        self.buffer[:, :, row, :, : prefix.shape[3]] = prefix

    def save(self, row: int, length: int) -> torch.Tensor:
        """A copy of a row's first ``length`` columns."""
        return self.buffer[:, :, row, :, :length].clone()

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows only, given in ascending order; they move to the front."""
        for new, old in enumerate(rows):
            if new != old:
                self.buffer[:, :, new, :, : self.width] = self.buffer[:, :, old, :, : self.width]
        self.rows = len(rows)
