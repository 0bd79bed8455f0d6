"""The parts of a step, and the state that they share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.slots import StoredEpisode
from turngrid.algorithms.turn_table import turn_ids
from turngrid.verl_plugin.training.turn_rows import padded, read

Metrics = dict[str, Any]
# first and last turn of each metric of the mismatch
TURNS = {"1": (1, 1), "2": (2, 2), "3_to_4": (3, 4), "5_to_8": (5, 8), "9_to_16": (9, 16), "17_up": (17, 10**6)}
LOG_PROBS = ("response_mask", "old_log_probs", "rollout_log_probs")


class Part(NamedTuple):
    run: Callable[[KVBatchMeta, Metrics], KVBatchMeta]  # returns the batch, as verl's own parts do
    timer: str = ""  # verl's timer to which the part's time is added; "" for none
    wanted: bool = True  # if False, the part is skipped


@dataclass
class Step:
    """The running step, shared by its parts."""

    number: int = 1  # counted from 1
    total: int = 1  # steps of the run
    nothing_left: bool = False  # whether filters or rejection left no episode to train on
    replaced: frozenset[str] = frozenset()  # names of the step's episodes that were replaced by stored ones
    # stored episodes of this step, each with the name of the one that it replaces; None: own update
    replayed: list[tuple[StoredEpisode, str | None]] = field(default_factory=list)
    layers: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # turns' advantages by episode, method

    def begin(self, number: int, total: int) -> None:
        vars(self).update(vars(Step(number, total)))

    def without_update(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        print(f"turngrid: step {self.number}: filters or rejection left nothing to learn from; no update", flush=True)
        metrics["filter/updates_left_out/total"] = 1.0  # verl sums a step's metrics with "total" in their names
        return batch


# ---- parts without a state


def in_order(batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
    """Sort rows by prompt and sample; verl's later operations are then reproducible."""

    def name_of(row: int) -> tuple[str, int, int]:
        prompt, sample, number = batch.keys[row].rsplit("_", 2)
        return prompt, int(sample), int(number)

    batch.reorder(sorted(range(len(batch.keys)), key=name_of))
    return batch


def with_adapter_again(batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
    """Drop the flag for a pass without LoRA: the critic, which follows, does not accept it."""
    batch.extra_info.pop("no_lora_adapter", None)
    return batch


def mismatch(batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
    """Add ``mismatch/nats`` and ``mismatch/nats/turns_...`` if both log-probs are there.

    A difference that grows with the turns points at what a turn adds: context, cached keys and
    values, a template.
    """
    data = read(batch, *LOG_PROBS)
    if set(LOG_PROBS) <= set(data.keys()):
        metrics |= differences(*(padded(data[name]) for name in LOG_PROBS))
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
