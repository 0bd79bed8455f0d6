"""Episodes that use the game's expert plan: its first turns, hints of it, or its verdict."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.envs.types import EnvError, TaskRef
from turngrid.rewards.declared import Card, excludes, number, only, without, word
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.spec import EpisodeSpec, Followed

PLAN, FEEDBACK, HINT = "plan", "last_feedback", "expert_hint"
EXACT, SAME_AFTER = "exact", "same_after"


@dataclass(kw_only=True)
class Prefix(Linear):
    """Replayed turns are part of the prompt: not learned from, rewarded or counted as turns."""

    turns: int = number(0)

    windows = False
    compares_turns = False
    whole = False
    needs_plan = True
    card = Card(needs="expert plans")

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


@dataclass(kw_only=True)
class Tcod(Linear):
    """TCOD: one more turn every ``every`` steps, as its YAML says."""

    direction: str = word("f2b", "b2f")
    every: int = number(1)

    conflicts = (
        without("curriculum.horizon", "both say how many turns the episodes of a step have", "curriculum=none"),
    )
    card = Card(paper="2604.24005", source="code", needs="expert plans for `b2f`; its teacher is `algo=distill`")

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
class Retry(Linear):
    """Agent-RLVR: the guided attempt replaces the first in the group."""

    guidance: str = word(PLAN, FEEDBACK, HINT)

    card = Card(
        paper="2506.11425",
        source="abstract",
        needs="expert plans, but for `last_feedback`",
        ours="wording; the guidance is in the trained prompt, also if a buffer replays it; the paper trains by DPO",
    )

    @property
    def needs_plan(self) -> bool:  # type: ignore[override]
        return self.guidance != FEEDBACK

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        if len(played) > n or any(episode.won for episode in played):
            return []
        return [replace(base, sample=n + e.sample, guidance=self._line(base, e)) for e in played]

    def group(self, played: Sequence[Episode], n: int, rng: Random) -> list[Episode]:
        first, again = list(played[:n]), list(played[n:])
        return [*again, *(replace(episode, trained=False) for episode in first)] if again else first

    def episodes(self, n: int) -> int:
        return 2 * n

    def _line(self, base: EpisodeSpec, failed: Episode) -> str:
        if self.guidance == FEEDBACK:
            return f"An earlier attempt failed. It ended with: {' '.join(failed.final_observation.split())}"
        plan = expert_plan(base.task)
        return f"Hint: begin with: {plan[0]}" if self.guidance == HINT else f"A plan that works: {', '.join(plan)}"


@dataclass(kw_only=True)
class SemiOnline(Linear):
    """An answer that is replaced in the history is still the trained turn, and ends its row."""

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
    card = Card(
        paper="2509.11543",
        source="code",
        result="of `algo=semi_online` on AndroidWorld: +12.0 over the 7B model",
        needs="expert plans of one action a turn; an algorithm that reads the matches: `algo=semi_online`",
        ours="`accept: same_after`; text in place of images",
    )

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        plan = expert_plan(base.task)
        followed = Followed(plan, self.patches, self.accept == SAME_AFTER)
        return super().specs(replace(base, followed=followed, max_turns=min(len(plan), base.max_turns)), n, rng)
