"""Mutes episodes with a turn that led to nothing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import Card, Method, word


@dataclass(kw_only=True)
class VoidTurns(Method):
    """Mute an episode with a void turn; the agent loop reads ``stop``.

    The episode stays in its group's baseline, as in the released code.
    """

    void: str = word("unparsed", "invalid")
    stop: bool | None

    when = "after"
    card = Card(
        "mutes episodes that have an answer without an action (`void: invalid`: or with an action that was not "
        "understood); `stop: true` ends an episode at such an answer",
        paper="2509.02479",
        source="code",
        ours="such an end is a loss",
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        good = turns.parsed & turns.valid if self.void == "invalid" else turns.parsed
        return (good | ~turns.mask).all(dim=1)
