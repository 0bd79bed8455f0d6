"""Episodes along the expert plan, in which every answer is judged (UI-S1)."""

from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import excludes, number, only, word
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.forms.prefix import expert_plan
from turngrid.rollouts.spec import EpisodeSpec, Followed

EXACT, SAME_AFTER = "exact", "same_after"


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

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        plan = expert_plan(base.task)
        followed = Followed(plan, self.patches, self.accept == SAME_AFTER)
        return super().specs(replace(base, followed=followed, max_turns=min(len(plan), base.max_turns)), n, rng)
