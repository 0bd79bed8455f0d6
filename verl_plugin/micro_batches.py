"""Training passes on a CPU that compute nothing in vain.

verl cuts a mini-batch into passes in the order of its rows and pads each pass to its longest row. Here rows of like
length share a pass, and rows whose advantage is 0 everywhere, as in a group whose samples all won or all lost, are left
out: their gradient is 0. The loss is still divided by all the mini-batch's tokens, so the update is the same.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu


def prepare(data: TensorDict, **_: Any) -> tuple[list[TensorDict], None]:
    """Takes the place of verl's ``prepare_micro_batches`` where no output is put back in the rows' order.

    Args:
        data: a mini-batch of jagged rows with ``micro_batch_size_per_gpu``, the most rows a pass.

    Returns:
        The passes (at least one, so that there is a loss), and None for verl's "order of the rows".
    """
    size = int(data["micro_batch_size_per_gpu"])
    rows = by_length(data, rows_with_a_gradient(data))
    return [tu.index_select_tensor_dict(data, rows[start : start + size]) for start in range(0, len(rows), size)], None


def rows_with_a_gradient(data: TensorDict) -> list[int]:
    """All rows, unless the policy's advantages are all that the loss is made of; then those with one, or row 0."""
    everyone = list(range(len(data)))
    if "advantages" not in data or "ref_log_prob" in data or _bool(data, "calculate_entropy"):
        return everyone
    rows = [bool(row.any()) for row in data["advantages"].unbind()]
    return [row for row in everyone if rows[row]] or everyone[:1]


def by_length(data: TensorDict, rows: list[int]) -> list[int]:
    """Shortest first; rows of one length in their order."""
    lengths = torch.as_tensor(data["input_ids"].offsets()).diff().tolist()
    return sorted(rows, key=lambda row: (lengths[row], row))


def _bool(data: TensorDict, key: str) -> bool:
    return bool(tu.get_non_tensor_data(data=data, key=key, default=False))
