"""Episodes with a turn that led to nothing are not learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from algorithms.turns import Turns

if TYPE_CHECKING:
    from torch import Tensor

UNPARSED, INVALID = "unparsed", "invalid"


@dataclass
class VoidTurns:
    """Mute an episode with at least one void turn (SimpleTIR, arXiv 2509.02479; its released code mutes the loss alone, so the
    episode stays in its group's baseline).

    Attributes:
        void: ``unparsed``: no action could be read from the answer; ``invalid``: nor if the environment did not understand it.
        stop: the episode ends with such a turn, lost, as in the paper; None: it goes on.

    Raises:
        ValueError: ``void`` is something else.
    """

    void: str = UNPARSED
    stop: bool | None = None

    when: ClassVar[Literal["before", "after"]] = "after"

    def __post_init__(self) -> None:
        if self.void not in (UNPARSED, INVALID):
            raise ValueError(f"void={self.void} must be {UNPARSED} or {INVALID}")

    def __call__(self, turns: Turns, step: int) -> Tensor:
        good = turns.parsed if self.void == UNPARSED else turns.parsed & turns.valid
        return (good | ~turns.mask).all(dim=1)
