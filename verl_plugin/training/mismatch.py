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

TURNS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 10**6))  # first and last turn of each metric
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
    chosen = {f"turns_{_range(first, last)}": (first <= numbers) & (numbers <= last) for first, last in TURNS}
    means = {f"mismatch/nats/{name}": apart[own].mean().item() for name, own in chosen.items() if own.any()}
    return {"mismatch/nats": apart[mask.bool()].mean().item(), **means} if mask.any() else {}


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}_up" if last == TURNS[-1][1] else f"{first}_to_{last}"
