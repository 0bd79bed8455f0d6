"""Summaries that replace an episode's earlier turns: when they are due, and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewards.declared import Method, number
from rollouts.episode import Turn

ASK = (
    "Your earlier turns are left out from here on. Sum up what you did and found so far, and what is left to do.\n"
    "Your summary:"
)
SHOWN = 10  # newest actions in the summary of a demonstration


@dataclass(kw_only=True)
class Summaries(Method):
    """Rules for summaries; conf/rollout_form/summary.yaml describes the settings.

    When a row is long, the policy writes a summary. A new row begins with the first message's head,
    the summary and the newest observation.

    Raises:
        ValueError: a number is below 1, or neither ``tokens`` nor ``turns`` is given.
    """

    tokens: int | None = number(1)
    turns: int | None = number(1)
    most: int | None = number(1)
    length: int = number(1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens is self.turns is None:
            raise ValueError("tokens=null turns=null: summaries would never be due; set one of them")

    def due(self, turns: int, tokens: int) -> bool:
        """Return whether a row of this many turns and tokens is to be summed up."""
        long = self.tokens is not None and tokens >= self.tokens
        return turns > 0 and (long or (self.turns is not None and turns >= self.turns))

    def left(self, turns: Sequence[Turn]) -> bool:
        """Return whether an episode with these turns may be summed up again."""
        return self.most is None or sum(turn.summary for turn in turns) < self.most

    def ask(self, observation: str) -> str:
        return f"{observation}\n{ASK}"

    def heading(self, summary: str) -> str:
        """Return the text of the next row's first message between its head and the observation."""
        return f"Your summary so far:\n{summary}\nNow:\n"

    def demonstrate(self, turns: Sequence[Turn]) -> str:
        """Return the summary of a demonstration: its newest actions."""
        actions = [turn.action.split("\n")[0] for turn in turns if not turn.summary]
        return f"Done so far: {', '.join(actions[-SHOWN:])}."
