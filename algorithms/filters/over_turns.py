from torch import Tensor

from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import Method, only


class OverTurns(Method):
    """Mute an episode that ran out of turns or of context."""

    when = "after"
    conflicts = (
        only(
            "turn_reward.name",
            "sparse",
            "binary",
            reason="episodes that were cut off are left out, with what the reward paid them",
            use="reward=sparse",
            warns=True,
        ),
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~turns.cut_off
