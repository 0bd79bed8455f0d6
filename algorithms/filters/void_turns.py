from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import Conflict, Method, word


@dataclass(kw_only=True)
class VoidTurns(Method):
    """Mute an episode with a void turn; the agent loop reads ``stop``."""

    void: str = word("unparsed", "invalid")
    stop: bool | None

    when = "after"
    conflicts = (
        Conflict(
            ("seats",),
            lambda method, seats: bool(method.stop and seats),
            "the match would end without the game's scores",
            "filter.void_turns.stop=null",
        ),
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        good = turns.parsed & turns.valid if self.void == "invalid" else turns.parsed
        return (good | ~turns.mask).all(dim=1)
