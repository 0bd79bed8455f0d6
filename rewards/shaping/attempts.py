"""Rewards of episodes with several attempts at a game (``rollout_form=attempts``)."""

from dataclasses import dataclass

from turngrid.rewards.declared import FIRST, Conflict, Method, number
from turngrid.rewards.reward import TRAINED, RewardView

WON = "won"
_AGAIN = Conflict(("several plays",), lambda _, are: not are, "no game is attempted again", "rollout_form=attempts")


@dataclass(kw_only=True)
class TryAgain(Method):
    """``r_last = gamma^k - lam (1 - distinct / T)`` if attempt k, from 0, won; else no gamma^k.

    In place of the trained reward. T attempts, of which ``distinct`` differ in their actions.
    """

    gamma: float = number(0, 1)
    lam: float = number(0)

    conflicts = (_AGAIN, FIRST)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns, count = view.episode.turns, len(view.episode.plays)
        actions = [tuple(turn.action for turn in turns if turn.attempt == number) for number in range(count)]
        paid = self.gamma ** (count - 1) * view.episode.won - self.lam * (1 - len({*actions}) / count)
        return view.only_last(paid)


@dataclass(kw_only=True)
class Improvement(Method):
    """Pays won_1 at the first attempt's end, ``won_2 + alpha (won_2 - won_1)`` at the second's.

    In place of the trained reward.
    """

    alpha: float = number(0)

    conflicts = (
        _AGAIN,
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
