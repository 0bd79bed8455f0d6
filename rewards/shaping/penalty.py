from dataclasses import dataclass
from typing import ClassVar

from turngrid.rewards.declared import Method, number, word
from turngrid.rewards.reward import RewardView


@dataclass(kw_only=True)
class Penalty(Method):
    """``r_t -= coefficient`` for each turn at fault; ``at=last``: on the last turn, the total.

    ``flag``: the attribute that is False for a turn at fault.
    """

    flag: ClassVar[str]
    coefficient: float = number(0)
    at: str = word("own", "last")

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        prices = [-self.coefficient * (not getattr(turn, self.flag)) for turn in view.episode.turns]
        return view.plus(prices) if self.at == "own" else view.plus_last(sum(prices))
