"""Mutes episodes with garbled or unparsed answers."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.turns import OUTCOMES, Turns
from turngrid.rewards.declared import Card, Method


@dataclass(kw_only=True)
class DrBot(Method):
    """Mute an episode that ran out of context, or with an unparsed or garbled turn."""

    when = "after"
    card = Card(
        "mutes episodes that ran out of context, and those with a turn that could not be parsed, has undecodable "
        "characters, or repeats 20 tokens 10 times; they stay in the baseline",
        paper="2509.22601",
        source="code",
        ours="tokens or words",
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        assert turns.garbled is not None
        good = (turns.parsed & ~turns.garbled) | ~turns.mask
        return good.all(dim=1) & (turns.outcome != OUTCOMES.index("out_of_context"))
