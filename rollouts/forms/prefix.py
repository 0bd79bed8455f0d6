"""Episodes begin after the first turns of the game's expert plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from envs.types import EnvError, TaskRef
from rollouts.forms.linear import Linear
from rollouts.loop import EpisodeSpec


@dataclass
class Prefix(Linear):
    """Replays ``turns`` actions of the expert plan, at most all but its last.

    The policy continues from there. Replayed turns are part of the prompt: they are neither learned
    from nor rewarded, nor counted as turns of the episode.

    Raises:
        ValueError: ``turns`` is negative.
    """

    turns: int = 1

    windows: ClassVar[bool] = False
    compares_turns: ClassVar[bool] = False
    whole: ClassVar[bool] = False
    needs_plan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.turns < 0:
            raise ValueError(f"turns={self.turns} must be 0 or more")

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        plan = expert_plan(base.task)
        return super().specs(replace(base, prefix=plan[: min(self.turns, len(plan) - 1)]), n, rng)


def expert_plan(task: TaskRef) -> tuple[str, ...]:
    """Return the game's expert plan. Raises: EnvError: it has none."""
    if not task.expert_plan:
        raise EnvError(f"{task.key} has no expert plan; use rollout_form=linear")
    return task.expert_plan
