"""The parts of a step: what a part is, and what the parts of one step share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from transfer_queue import KVBatchMeta

from turngrid.algorithms.slots import StoredEpisode

Metrics = dict[str, Any]


class Part(NamedTuple):
    """One part of a step.

    Attributes:
        run: takes a batch and the step's metrics and returns the batch, as verl's own parts do.
        timer: the timer of verl's that the part counts to; "" for none.
        wanted: False leaves the part out.
    """

    run: Callable[[KVBatchMeta, Metrics], KVBatchMeta]
    timer: str = ""
    wanted: bool = True


@dataclass
class Step:
    """The running step, shared by its parts.

    Attributes:
        number: counted from 1.
        total: steps of the run.
        nothing_left: filters or rejection left no episode of the current update to learn from.
        groups_of_one: groups of the current update in which rejection left one sample.
        replaced: episodes in whose place this step learns from stored ones.
        replayed: the stored episodes that this step learns from, each with the name of the episode
            whose place it took, or None if it has an update of its own.
        layers: advantages a turn, by episode and by credit method.
    """

    number: int = 1
    total: int = 1
    nothing_left: bool = False
    groups_of_one: int = 0
    replaced: frozenset[str] = frozenset()
    replayed: list[tuple[StoredEpisode, str | None]] = field(default_factory=list)
    layers: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def begin(self, number: int, total: int) -> None:
        """Forget the step before."""
        vars(self).update(vars(Step(number, total)))
