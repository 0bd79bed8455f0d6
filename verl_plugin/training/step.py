"""The parts of a step, and the state that they share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transfer_queue import KVBatchMeta

from turngrid.algorithms.slots import StoredEpisode

Metrics = dict[str, Any]


class Part(NamedTuple):
    """One part of a step."""

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
        """Reset to the start of a new step."""
        vars(self).update(vars(Step(number, total)))


# ---- parts without a state


def in_order(batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
    """Sort rows by prompt and sample; verl's later operations are then reproducible."""

    def place(row: int) -> tuple[str, int, int]:
        prompt, sample, number = batch.keys[row].rsplit("_", 2)
        return prompt, int(sample), int(number)

    batch.reorder(sorted(range(len(batch.keys)), key=place))
    return batch


def with_adapter_again(batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
    """Drop the flag for a pass without LoRA: the critic, which follows, does not accept it."""
    batch.extra_info.pop("no_lora_adapter", None)
    return batch
