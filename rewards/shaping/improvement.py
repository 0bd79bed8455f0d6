from dataclasses import dataclass

from turngrid.rewards.declared import FIRST, Conflict, Method, number
from turngrid.rewards.reward import TRAINED, RewardView
from turngrid.rewards.shaping.try_again import AGAIN

WON = "won"


@dataclass(kw_only=True)
class Improvement(Method):
    """Pays won_1 at the first attempt's end, ``won_2 + alpha (won_2 - won_1)`` at the second's.

    In place of the trained reward.
    """

    alpha: float = number(0)

    conflicts = (
        AGAIN,
        FIRST,
        Conflict(
            ("rollout_form.attempts.attempts", "rollout_form.attempts.until_won"),
            lambda _, plays, until: plays not in (2, None) or bool(until),
            "it compares the second attempt with the first, won or not",
            "rollout_form.attempts.attempts=2 rollout_form.attempts.until_won=false",
        ),
        Conflict(
            ("credit",),
            lambda _, names: "attempts" not in names,
            "summed over the episode it would pay for losing the first attempt",
            "credit=[attempts]",
        ),
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns, won = view.episode.turns, [float(play == WON) for play in view.episode.plays]
        paid = [won[0], *(now + self.alpha * (now - won[0]) for now in won[1:])]
        last = {turn.attempt: number for number, turn in enumerate(turns)}
        return {TRAINED: [paid[turn.attempt] * (last[turn.attempt] == n) for n, turn in enumerate(turns)]}
