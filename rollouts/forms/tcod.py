"""TCOD's curricula: forwards from the game's first turn (f2b), or backwards from its last (b2f)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from rewards.declared import Conflict
from rollouts.forms.linear import Linear
from rollouts.forms.prefix import expert_plan
from rollouts.loop import EpisodeSpec

F2B, B2F = "f2b", "b2f"


@dataclass
class Tcod(Linear):
    """TCOD (arXiv 2604.24005, released code): one more turn every ``every`` steps.

    With k' the number of finished steps:

    - ``f2b``: an episode has ``min(1 + k' // every, env.max_turns)`` turns from the game's start;
    - ``b2f``: the first ``max(0, L - 1 - k' // every)`` of the L actions of the expert plan are
      replayed, then the policy acts.

    Raises:
        ValueError: ``direction`` is unknown, or ``every`` is below 1.
    """

    direction: str = B2F
    every: int = 5

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("curriculum.horizon",),
            lambda _, horizon: horizon is not None,
            "both say how many turns the episodes of a step have",
            "curriculum=none",
        ),
    )

    def __post_init__(self) -> None:
        if self.direction not in (F2B, B2F):
            raise ValueError(f"direction={self.direction} must be {F2B} or {B2F}")
        if self.every < 1:
            raise ValueError(f"every={self.every} must be at least 1 step")

    @property
    def windows(self) -> bool:  # type: ignore[override]
        return self.direction == F2B

    compares_turns = whole = windows  # f2b replays nothing

    @property
    def needs_plan(self) -> bool:  # type: ignore[override]
        return self.direction == B2F

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        risen = (base.step - 1) // self.every
        if self.direction == F2B:
            return super().specs(replace(base, max_turns=min(1 + risen, base.max_turns)), n, rng)
        plan = expert_plan(base.task)
        return super().specs(replace(base, prefix=plan[: max(0, len(plan) - 1 - risen)]), n, rng)
