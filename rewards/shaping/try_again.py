from dataclasses import dataclass

from turngrid.rewards.declared import FIRST, Conflict, Method, number
from turngrid.rewards.reward import RewardView

AGAIN = Conflict(("several plays",), lambda _, are: not are, "no game is attempted again", "rollout_form=attempts")


@dataclass(kw_only=True)
class TryAgain(Method):
    """``r_last = gamma^k - lam (1 - distinct / T)`` if attempt k, from 0, won; else no gamma^k.

    In place of the trained reward. T attempts, of which ``distinct`` differ in their actions.
    """

    gamma: float = number(0, 1)
    lam: float = number(0)

    conflicts = (AGAIN, FIRST)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns, count = view.episode.turns, len(view.episode.plays)
        actions = [tuple(turn.action for turn in turns if turn.attempt == number) for number in range(count)]
        paid = self.gamma ** (count - 1) * view.episode.won - self.lam * (1 - len({*actions}) / count)
        return view.only_last(paid)
