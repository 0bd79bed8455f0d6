"""Episodes in which the model babbled are not learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from algorithms.turns import OUTCOMES, Turns

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class DrBot:
    """Mute an episode that ran out of context, or with a turn that could not be parsed, has undecodable characters, or repeats 20
    tokens in a row 10 times or more (SPEAR, arXiv 2509.22601, as released). It stays in its group's baseline."""

    when: ClassVar[Literal["before", "after"]] = "after"

    def __call__(self, turns: Turns, step: int) -> Tensor:
        assert turns.garbled is not None
        good = (turns.parsed & ~turns.garbled) | ~turns.mask
        return good.all(dim=1) & (turns.outcome != OUTCOMES.index("out_of_context"))
