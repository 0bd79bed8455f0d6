"""Token order of a micro-batch without padding: rows end to end, each common prefix stored once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from turngrid.verl_plugin.servers.transformers_server.key_values import common_length


class Layout:
    """Rows end to end, cut into parts that rows may share.

    It is no dataclass, since FSDP copies dataclasses with their lists at every layer (1 of 3.5 CPU
    seconds of an update).
    """

    def __init__(self, rows: int) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []  # of each token in its row
        self.sizes: list[int] = []  # tokens of each part
        self.paths: list[list[int]] = [[] for _ in range(rows)]  # the indices of each row's parts in order

    @classmethod
    def of(cls, rows: Sequence[list[int]]) -> Layout:
        """Lay out rows of token ids, in a loop: each row may extend another, 3,000 deep."""
        layout = cls(len(rows))
        waiting = [(sorted(range(len(rows)), key=rows.__getitem__), 0)]
        while waiting:
            chosen, start = waiting.pop()
            end = common_length(rows[chosen[0]], rows[chosen[-1]])
            layout._add(chosen, rows[chosen[0]], start, end)
            branches = groupby(chosen, key=lambda row: rows[row][end : end + 1])  # by their next token, if any
            waiting += reversed([(list(branch), end) for next_id, branch in branches if next_id])
        return layout

    def _add(self, chosen: Sequence[int], ids: Sequence[int], start: int, end: int) -> None:
        for row in chosen:
            self.paths[row].append(len(self.sizes))
        self.sizes.append(end - start)
        self.ids += ids[start:end]
        self.positions += range(start, end)

    def sizes_of(self, path: Sequence[int]) -> list[int]:
        return [self.sizes[part] for part in path]

    def of_row(self, row: int, states: Tensor) -> Tensor:
        """Select a row's tokens: (1, heads, tokens, head size)."""
        parts = states.split(self.sizes, dim=2)
        return torch.cat([parts[part] for part in self.paths[row]], dim=2)

    @cached_property
    def longest(self) -> int:
        return max(sum(self.sizes_of(path)) for path in self.paths)

    @cached_property
    def places(self) -> Tensor:
        """Return each row's token indices in the micro-batch, (rows, longest), padded with 0."""
        parts = torch.arange(len(self.ids)).split(self.sizes)
        return pad_sequence([torch.cat([parts[part] for part in path]) for path in self.paths], batch_first=True)


def ids_of(input_ids: Tensor) -> list[list[int]]:
    """Convert jagged (rows, tokens) into a list for each row."""
    return [row.tolist() for row in input_ids.unbind()]
