from dataclasses import dataclass

from turngrid.rewards.declared import Method, number
from turngrid.rewards.reward import RewardView


@dataclass(kw_only=True)
class TurnBonus(Method):
    """``r_last += weight * decay * min(1, a_turn * turns)``. It pays for mere length."""

    weight: float = number()
    a_turn: float = number(0, 1)
    decay: float = number()

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns = sum(not turn.aside for turn in view.episode.turns)
        return view.plus_last(self.weight * self.decay * min(1.0, self.a_turn * turns))
