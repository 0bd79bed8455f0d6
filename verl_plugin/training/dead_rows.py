"""Dead rows: rows of an episode that rejection dropped whole, or of the only sample left in its
group.

verl's correction of old samples removes tokens only from ``response_mask``, but the mean of the
loss and the turn table use ``loss_mask``. Here an episode without tokens left is removed from both
masks, as by a filter, and so is a sample without a baseline.
"""

from __future__ import annotations

from collections import Counter

import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta

from turngrid.verl_plugin.training.turn_rows import MASKS, members, padded, write_tokens


def mute_dead(batch: KVBatchMeta, needs_group: bool) -> tuple[KVBatchMeta, int, bool]:
    """Clear both masks of dead rows; if no row would be left, keep all, since verl's metrics are
    means over rows.

    Args:
        needs_group: whether the baseline needs another sample of the same prompt.

    Returns:
        The batch, the number of groups with one sample left, and whether nothing is left to train
            on.
    """
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(MASKS))
    lengths = [len(row) for row in data["loss_mask"].unbind()]
    sampled, used = (padded(data[name]) for name in MASKS)
    rows = members(batch.keys)
    left = [name for name, own in rows.items() if used[own].any()]
    sizes = Counter(name.rpartition("_")[0] for name in left)
    alone = sum(size == 1 for size in sizes.values()) if needs_group else 0
    kept = [row for name in left if not needs_group or sizes[name.rpartition("_")[0]] > 1 for row in rows[name]]
    alive = torch.zeros(len(lengths), 1, dtype=sampled.dtype)
    alive[kept] = 1
    masks = {"loss_mask": sampled * alive, "response_mask": used * alive} if kept else dict.fromkeys(MASKS, sampled)
    if all(torch.equal(mask, old) for mask, old in zip(masks.values(), (sampled, used), strict=True)):
        return batch, alone, not kept
    return write_tokens(batch, masks, lengths), alone, not kept
