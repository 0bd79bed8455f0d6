"""Episodes along the expert plan, in which every answer is judged (UI-S1)."""

from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import Card, excludes, number, only, word
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
