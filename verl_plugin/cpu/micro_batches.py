"""Micro-batches of an update on CPUs, without rows that change nothing.

verl cuts a batch into micro-batches in the order of its rows and pads each to its longest row. Here
rows with a common prefix share a micro-batch if that prefix is computed once (``packed_rows``),
else rows of similar length do. Two kinds of rows are left out:

- Rows without an action token, with which verl pads a batch: no loss or metric reads them.
- In a policy update, rows whose advantage is 0 everywhere, if ``zero_advantages`` allows it. Their
  gradient is 0. For some losses, only micro-batches that consist of such rows are left out.

A loss is still divided by all tokens of the mini-batch, so the update is the same.
"""

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from turngrid.verl_plugin.cpu.layout import ids_of
from turngrid.verl_plugin.training import zero_advantages
from turngrid.verl_plugin.training.losses import SEQUENCES

Passes = tuple[list[TensorDict], Any]
BY_IDS = "passes_by_ids"  # batch key: a common prefix of rows in a micro-batch is computed once


def prepare(data: TensorDict, verls: Callable[..., Passes], **settings: Any) -> Passes:
    """Leave out rows that change nothing, and put rows of one prefix or of similar length together.

    ``verls`` is verl's function, which fills micro-batches by tokens if ``use_dynamic_bsz``. It
    returns the micro-batches, and the indices with which verl restores their order.
    """
    rows = order_of_rows(data)
    if _dynamic(data):
        return verls(tu.index_select_tensor_dict(data, rows), **settings)
    together = tu.get_non_tensor_data(data, SEQUENCES, default=1) if tu.get_non_tensor_data(data, BY_IDS, False) else 1
    return _cut(data, rows, int(data["micro_batch_size_per_gpu"]) * together), None


def _cut(data: TensorDict, rows: list[int], size: int) -> list[TensorDict]:
    """Cut these rows, which are selected at once: each selection takes all jagged rows apart."""
    rest = len(rows) % size
    whole, left = rows[: len(rows) - rest], rows[len(rows) - rest :]
    passes = tu.chunk_tensordict(tu.index_select_tensor_dict(data, whole), len(whole) // size) if whole else []
    return [*passes, *([tu.index_select_tensor_dict(data, left)] if left else [])]


def in_order(outputs: dict[str, Tensor], data: TensorDict) -> dict[str, Tensor]:
    """Return jagged outputs of the micro-batches in the order of ``data``; rows left out are 0."""
    order, acted = order_of_rows(data), _with_an_action(data)
    lengths = data["input_ids"].offsets().diff().tolist()

    def of_all(output: Tensor) -> Tensor:
        known = {row: values for row, values in zip(order, output.unbind(), strict=True) if acted[row]}
        rows = [known[row] if row in known else output.values().new_zeros(size) for row, size in enumerate(lengths)]
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    return {name: of_all(output) for name, output in outputs.items()}


def order_of_rows(data: TensorDict) -> list[int]:
    """Return the rows to compute, ordered by ids or by length, or as they are if verl cuts them."""
    rows = rows_of_passes(data)
    if _dynamic(data):
        return rows
    if tu.get_non_tensor_data(data, BY_IDS, default=False):
        return _without_idle_passes(sorted(rows, key=ids_of(data["input_ids"]).__getitem__), data)
    lengths = data["input_ids"].offsets().diff().tolist()
    return _without_idle_passes(sorted(rows, key=lambda row: (lengths[row], row)), data)


def _without_idle_passes(rows: list[int], data: TensorDict) -> list[int]:
    """Leave out only whole micro-batches, and never all, so that the others keep their rows."""
    if tu.get_non_tensor_data(data, zero_advantages.KEY, default="") != zero_advantages.PASSES:
        return rows
    size, weighed = int(data["micro_batch_size_per_gpu"]), _with_an_advantage(data)
    passes = [rows[start : start + size] for start in range(0, len(rows), size)]
    learned = [one for one in passes if any(weighed[row] for row in one)] or passes[:1]
    return [row for one in learned for row in one]


def rows_of_passes(data: TensorDict) -> list[int]:
    """Return the rows that a loss or metric reads; if none, one row, preferably with an action."""
    acted = [row for row, acts in enumerate(_with_an_action(data)) if acts] or [0]
    if tu.get_non_tensor_data(data, zero_advantages.KEY, default="") != zero_advantages.ROWS:
        return acted
    weighed = _with_an_advantage(data)
    return [row for row in acted if weighed[row]] or acted[:1]


def _with_an_advantage(data: TensorDict) -> list[bool]:
    return [bool(row.any()) for row in data["advantages"].unbind()]


def _with_an_action(data: TensorDict) -> list[bool]:
    """SFT's rows have no response mask, and all count."""
    if "response_mask" not in data:
        return [True] * len(data)
    return [bool(row.any()) for row in data["response_mask"].unbind()]


def _dynamic(data: TensorDict) -> bool:
    return bool(tu.get_non_tensor_data(data, "use_dynamic_bsz", default=True))
