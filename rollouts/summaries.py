"""Summaries in the place of an episode's earlier turns: when they are asked for, in which words, and how they are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.ranges import in_range
from rollouts.episode import Turn

ASK = (
    "Your earlier turns are left out from here on. Sum up what you did and found so far, and what is left to do.\n"
    "Your summary:"
)
SHOWN = 10  # of the newest actions, in a summary that nobody sampled


@dataclass
class Summaries:
    """When a row has grown long the policy sums up the episode; a new row begins with the first message's head, the summary and the
    newest observation.

    Attributes:
        tokens: a row of so many, up to its newest action, is summed up; None: ``turns`` alone says when.
        turns: a row of so many turns is summed up; None: ``tokens`` alone says when.
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
            raise ValueError("tokens=null and turns=null: nothing says when to sum up; set one")

    def due(self, turns: int, tokens: int) -> bool:
        """After so many turns of a row, when it has so many tokens."""
        long = self.tokens is not None and tokens >= self.tokens
        return turns > 0 and (long or (self.turns is not None and turns >= self.turns))

    def left(self, turns: Sequence[Turn]) -> bool:
        """Whether an episode of these turns may be summed up once more."""
        return self.most is None or sum(turn.summary for turn in turns) < self.most

    def ask(self, observation: str) -> str:
        return f"{observation}\n{ASK}"

    def told(self, summary: str) -> str:
        """What the next row's first message says between its head and the observation."""
        return f"Your summary so far:\n{summary}\nNow:\n"

    def demonstrate(self, turns: Sequence[Turn]) -> str:
        """The summary of somebody who did nothing but follow a plan."""
        actions = [turn.action.split("\n")[0] for turn in turns if not turn.summary]
        return f"Done so far: {', '.join(actions[-SHOWN:])}."
