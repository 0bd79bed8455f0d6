"""Episodes by the game's expert plan: after its first turns, or along it."""

from dataclasses import dataclass, replace
from random import Random

from turngrid.envs.types import EnvError, TaskRef
from turngrid.rewards.declared import excludes, number, only, without, word
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.spec import EpisodeSpec, Followed

EXACT, SAME_AFTER = "exact", "same_after"


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


@dataclass(kw_only=True)
class Tcod(Linear):
    """TCOD: one more turn every ``every`` steps, as its YAML says."""

    direction: str = word("f2b", "b2f")
    every: int = number(1)

    conflicts = (
        without("curriculum.horizon", "both say how many turns the episodes of a step have", "curriculum=none"),
    )

    @property
    def windows(self) -> bool:  # type: ignore[override]
        return self.direction == "f2b"

    compares_turns = whole = windows  # f2b replays nothing

    @property
    def needs_plan(self) -> bool:  # type: ignore[override]
        return self.direction == "b2f"

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        risen = (base.step - 1) // self.every
        if self.direction == "f2b":
            return super().specs(replace(base, max_turns=min(1 + risen, base.max_turns)), n, rng)
        plan = expert_plan(base.task)
        return super().specs(replace(base, prefix=plan[: max(0, len(plan) - 1 - risen)]), n, rng)


@dataclass(kw_only=True)
class SemiOnline(Linear):
    """UI-S1: every answer is judged.

    An answer that is replaced in the history is still the trained turn, and ends its row.
    """

    patches: int = number(-1)
    accept: str = word(EXACT, SAME_AFTER)

    windows = False
    compares_turns = False
    whole = False
    several_rows = True
    needs_plan = True
    conflicts = (
        only("prompt.max_actions", 1, None, reason="an answer is compared with one action"),
        excludes("filter", "over_turns", reason="no episode runs out of turns: each has those of the plan"),
        only("algo.name", "semi_online", reason="it is paid for turns that match the plan", use="algo=semi_online"),
    )

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        plan = expert_plan(base.task)
        followed = Followed(plan, self.patches, self.accept == SAME_AFTER)
        return super().specs(replace(base, followed=followed, max_turns=min(len(plan), base.max_turns)), n, rng)


def expert_plan(task: TaskRef) -> tuple[str, ...]:
    """Return the game's expert plan.

    Raises:
        EnvError: the game has none.
    """
    if not task.expert_plan:
        raise EnvError(f"{task.key} has no expert plan; use rollout_form=linear")
    return task.expert_plan
