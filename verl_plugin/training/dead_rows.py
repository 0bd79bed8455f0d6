"""Dead rows: of an episode that rejection dropped whole, and of a sample that is alone in its
group.

verl's correction of old samples takes tokens out of ``response_mask`` alone; the mean of the loss
and the turn table are over ``loss_mask``. Here an episode without a token left goes from both, as
with a filter; so does a sample without a baseline.
"""

from __future__ import annotations

from collections import Counter

import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta

from turngrid.verl_plugin.training.turn_rows import MASKS, members, padded, write_tokens


def mute_dead(batch: KVBatchMeta, needs_group: bool) -> tuple[KVBatchMeta, int, bool]:
    """Clear both masks of dead rows; if no row would be left, keep them as sampled, since verl's
    metrics are means over them.

    Args:
        needs_group: a sample needs another one of its prompt for its baseline.

    Returns:
        The batch, how many groups had one sample left, and whether nothing is left to learn from.
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
