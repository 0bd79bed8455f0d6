"""Contexts: token sequences that the policy scores for a method, besides the rows of a step.

A method's ``contexts(row)`` is called once for each row, when the group's episodes have ended. All
contexts are scored in the pass for old log-probs, by the weights that sampled, at the sampling
temperature. The method gets its own results in ``Turns.scored``.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol

from turngrid.rewards.reward import ScoredTurn


class Context(NamedTuple):
    """A sequence, and its tokens whose log-probs are wanted.

    Attributes:
        ids: token ids.
        scored: for each token, whether it is scored. The first cannot be.
        turn: index in the row of the turn that gets the result.
    """

    ids: Sequence[int]
    scored: Sequence[bool]
    turn: int


class SeenTurn(ScoredTurn, Protocol):
    """The part of ``turngrid.rollouts.episode.Turn`` that methods read, besides the turn table."""

    observation: str
    action: str
    aside: bool


class RowView(Protocol):
    """A row of a finished episode, with the texts that its tokens come from.

    Attributes:
        task: key of the game.
        turns: the row's turns; arguments named ``turn`` are indices into it.
        first: index in the episode of the row's first turn.
        won: whether the episode was won.
        plan: actions of the game's expert plan; empty without one.
        gold: right answers, if the environment knows any.
    """

    task: str
    turns: Sequence[SeenTurn]
    first: int
    won: bool
    plan: Sequence[str]
    gold: Sequence[str]

    def before(self, turn: int) -> list[int]:
        """Return the ids of the row before a turn's answer."""

    def answer(self, turn: int) -> tuple[list[int], list[bool]]:
        """Return the ids of a turn's answer, and which of them are trained on."""

    def after_prompt(self) -> tuple[list[int], list[bool]]:
        """Return the ids of the row after its prompt, and which of them are trained on."""

    def with_observation(self, turn: int, text: str) -> list[int] | None:
        """Return ``before(turn)`` with the turn's observation replaced, of the same length.

        The text's tokens are cut, or the last one is repeated. None if the observation has no
        tokens of its own.
        """

    def with_line(self, text: str) -> list[int] | None:
        """Return the row's prompt with a line before the goal; None if it begins without a goal."""

    def submitted(self, text: str, thought: str) -> tuple[list[int], list[bool]]:
        """Return the ids of the answer that submits a right answer, and which of them spell it.

        Args:
            thought: of the answer, if the prompt form has thoughts.
        """


class Asks(Protocol):
    """A method with contexts.

    Attributes:
        scores: "turns": a turn gets the mean of a context's log-probs. "tokens": each trained
            token, from the turn's first one on, gets its own.
        average: optional; if not None, contexts are scored by a running average of the policy's
            weights (``turngrid.verl_plugin.averaged.advanced`` has its settings).
    """

    scores: ClassVar[Literal["turns", "tokens"]]

    def contexts(self, row: RowView) -> Sequence[Context]: ...
