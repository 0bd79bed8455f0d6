"""How far the log-probs of the policy that sampled are from the trainer's, by turn of a row.

verl reports means over a whole step. A difference that grows with the turns points at what a turn
adds: context, cached keys and values, a template.
"""

import transfer_queue as tq
from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.turn_table import turn_ids
from turngrid.verl_plugin.training.step import Metrics
from turngrid.verl_plugin.training.turn_rows import padded

# first and last turn of each metric
TURNS = {"1": (1, 1), "2": (2, 2), "3_to_4": (3, 4), "5_to_8": (5, 8), "9_to_16": (9, 16), "17_up": (17, 10**6)}
FIELDS = ("response_mask", "old_log_probs", "rollout_log_probs")


def by_turn(batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
    """Add ``mismatch/nats`` and ``mismatch/nats/turns_...`` if both log-probs are there."""
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(FIELDS))
    if set(FIELDS) <= set(data.keys()):
        metrics |= differences(*(padded(data[name]) for name in FIELDS))
    return batch


def differences(mask: Tensor, trainer: Tensor, sampler: Tensor) -> dict[str, float]:
    """Return mean |difference| in nats a token, over all tokens and over those of some turns.

    Args:
        mask: (B, T), 1 at action tokens; each run of ones is a turn.
        trainer, sampler: log-probs, (B, T).
    """
    apart, numbers = (trainer - sampler).abs(), turn_ids(mask)
    chosen = {name: (first <= numbers) & (numbers <= last) for name, (first, last) in TURNS.items()}
    means = {f"mismatch/nats/turns_{name}": apart[own].mean().item() for name, own in chosen.items() if own.any()}
    return {"mismatch/nats": apart[mask.bool()].mean().item(), **means} if mask.any() else {}
