import math
from dataclasses import dataclass

from turngrid.rewards.declared import FIRST, Method, number
from turngrid.rewards.reward import RewardView


@dataclass(kw_only=True)
class CosineLength(Method):
    """``r_last = long + (short - long) (1 + cos(pi n / tokens)) / 2``, not the trained reward.

    n is the number of the episode's action tokens; if it exceeds ``tokens``, the reward is
    ``beyond``. Won and lost episodes have separate values of ``short`` (n = 0) and ``long``.
    """

    tokens: int = number(1)
    won_short: float = number()
    won_long: float = number()
    lost_short: float = number()
    lost_long: float = number()
    beyond: float = number()

    conflicts = (FIRST,)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        count = sum(len(turn.action_ids) for turn in view.episode.turns)
        won = view.episode.won
        short, long = (self.won_short, self.won_long) if won else (self.lost_short, self.lost_long)
        paid = long + (short - long) * (1 + math.cos(math.pi * count / self.tokens)) / 2
        return view.only_last(self.beyond if count > self.tokens else paid)
