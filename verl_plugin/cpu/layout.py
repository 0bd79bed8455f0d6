"""Where the tokens of a pass stand whose rows lie end to end, without padding, and what several rows begin with once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from verl_plugin.servers.transformers_server.key_values import common_length


@dataclass
class Layout:
    """Where the tokens of a pass stand.

    Attributes:
        sizes: of the parts, end to end.
        paths: of each row, its parts in their order.
        read: the tokens of which the last layer's output is read; None: all.
    """

    sizes: list[int]
    paths: list[list[int]]
    read: Read | None = None

    @classmethod
    def of(cls, rows: Sequence[list[int]]) -> Layout:
        """From the ids of each row."""
        layout = cls([], [[] for _ in rows])
        left = [(sorted(range(len(rows)), key=rows.__getitem__), 0)]
        while left:
            left += reversed(layout._lay(rows, *left.pop()))
        return layout

    def _lay(self, rows: Sequence[list[int]], chosen: Sequence[int], start: int) -> list[tuple[list[int], int]]:
        """What these rows, in the order of their ids, have in common from place ``start`` on; the rows that go on alike from there,
        and where that is, to be laid next."""
        end = common_length(rows[chosen[0]], rows[chosen[-1]])
        for row in chosen:
            self.paths[row].append(len(self.sizes))
        self.sizes.append(end - start)
        branches = groupby(chosen, key=lambda row: rows[row][end : end + 1])
        return [(list(branch), end) for next_id, branch in branches if next_id]

    def sizes_of(self, path: Sequence[int]) -> list[int]:
        return [self.sizes[part] for part in path]

    def of_row(self, row: int, states: Tensor) -> Tensor:
        """(1, heads, tokens of the pass, head size) -> the same of this row's tokens."""
        parts = states.split(self.sizes, dim=2)
        return torch.cat([parts[part] for part in self.paths[row]], dim=2)

    @cached_property
    def lengths(self) -> Tensor:
        """Of each row."""
        return torch.tensor([sum(self.sizes_of(path)) for path in self.paths])

    @cached_property
    def places(self) -> Tensor:
        """Of each row's tokens in the pass, (rows, most tokens); a short row ends with 0."""
        parts = torch.arange(sum(self.sizes)).split(self.sizes)
        return pad_sequence([torch.cat([parts[part] for part in path]) for path in self.paths], batch_first=True)

    def packed(self, padded: Tensor) -> Tensor:
        """(rows, most tokens) -> (1, tokens of the pass)."""
        real = torch.arange(padded.shape[1]) < self.lengths[:, None]
        found = padded.new_zeros(1, sum(self.sizes))
        found[0, self.places[real]] = padded[real]
        return found


@dataclass(frozen=True)
class Read:
    """The tokens of a pass that are read, in the order of the first rows that they are in; none twice.

    Attributes:
        places: in the pass, (tokens,).
        rows, columns: where they stand in the padded batch, (tokens,).
        index: the number in ``places`` of each place that was asked for.
    """

    places: Tensor
    rows: Tensor
    columns: Tensor
    index: Tensor

    @classmethod
    def of(cls, layout: Layout, rows: Tensor, columns: Tensor) -> Read:
        """``rows`` and ``columns`` of the padded batch, row by row; where there are none, a token that nobody asks for, so that there is
        a gradient, of 0."""
        if not len(rows):
            first = rows.new_zeros(1)
            return cls(layout.places[0, :1], first, first, index=rows)
        asked = layout.places[rows, columns]
        numbers: dict[int, int] = {}
        index = torch.tensor([numbers.setdefault(place, len(numbers)) for place in asked.tolist()])
        new = torch.ones_like(index, dtype=torch.bool)
        new[1:] = index[1:] > index.cummax(0).values[:-1]
        return cls(asked[new], rows[new], columns[new], index)


def ids_of(input_ids: Tensor) -> list[list[int]]:
    """Jagged (rows, tokens) -> a list a row."""
    return [row.tolist() for row in input_ids.unbind()]
