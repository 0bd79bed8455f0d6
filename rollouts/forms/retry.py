"""A group without a win runs again, with guidance."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import word
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.forms.prefix import expert_plan
from turngrid.rollouts.spec import EpisodeSpec

PLAN, FEEDBACK, HINT = "plan", "last_feedback", "expert_hint"


@dataclass(kw_only=True)
class Retry(Linear):
    """Agent-RLVR: the guided attempt replaces the first in the group."""

    guidance: str = word(PLAN, FEEDBACK, HINT)

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
