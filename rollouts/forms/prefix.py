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
    """``turns`` actions of the plan are replayed, at most all but its last; the policy plays on from there.

    What is replayed is part of the prompt: never learned from, never rewarded, and not counted as turns of the episode.

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
    """Raises: EnvError: there is none."""
    if not task.expert_plan:
        raise EnvError(f"{task.key} has no expert plan to replay: choose rollout_form=linear")
    return task.expert_plan
