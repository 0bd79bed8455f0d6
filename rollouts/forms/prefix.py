"""Episodes begin after the first turns of the game's expert plan."""

from dataclasses import dataclass, replace
from random import Random

from turngrid.envs.types import EnvError, TaskRef
from turngrid.rewards.declared import number
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.spec import EpisodeSpec


@dataclass(kw_only=True)
class Prefix(Linear):
    """Replayed turns are part of the prompt: not learned from, rewarded or counted as turns."""

    turns: int = number(0)

    windows = False
    compares_turns = False
    whole = False
    needs_plan = True

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        plan = expert_plan(base.task)
        return super().specs(replace(base, prefix=plan[: min(self.turns, len(plan) - 1)]), n, rng)


def expert_plan(task: TaskRef) -> tuple[str, ...]:
    """Return the game's expert plan.

    Raises:
        EnvError: the game has none.
    """
    if not task.expert_plan:
        raise EnvError(f"{task.key} has no expert plan; use rollout_form=linear")
    return task.expert_plan
