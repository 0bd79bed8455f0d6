"""Summaries that replace an episode's earlier turns: when they are due, and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.utils.ranges import in_range
from rollouts.episode import Turn

ASK = (
    "Your earlier turns are left out from here on. Sum up what you did and found so far, and what is left to do.\n"
    "Your summary:"
)
SHOWN = 10  # newest actions in the summary of a demonstration


@dataclass
class Summaries:
    """Rules for summaries.

    When a row is long, the policy writes a summary. A new row begins with the first message's head,
    the summary and the newest observation.

    Attributes:
        tokens: a row of this many tokens, up to its newest action, is summed up; None: no limit.
        turns: a row of this many turns is summed up; None: no limit.
        most: summaries of an episode; where one more is due it ends out of context. None: no limit.
        length: tokens of a summary, at most.

    Raises:
        ValueError: a number is below 1, or nothing says when.
    """

    tokens: int | None = 384
    turns: int | None = None
    most: int | None = 3
    length: int = 64

    def __post_init__(self) -> None:
        given = {name: value for name, value in vars(self).items() if value is not None}
        in_range(1, **given)
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
