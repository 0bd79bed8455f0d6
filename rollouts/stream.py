"""The token side of an episode, as a protocol: the room below the models knows sequences of ints and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rollouts.prompts import Message


class TokenStream(Protocol):
    """One growing sequence of token ids. What was added is never decoded and encoded again."""

    @property
    def ids(self) -> Sequence[int]: ...

    def start(self, messages: Sequence[Message]) -> list[int]:
        """Render the first prompt, generation prompt included; returns its ids."""
        ...

    def add_sampled(self, ids: Sequence[int]) -> None:
        """Append an action exactly as it was sampled."""
        ...

    def add_context(self, messages: Sequence[Message]) -> list[int]:
        """Append messages that the model did not write (end of the action where it is missing, the next observation,
        generation prompt); returns the ids added."""
        ...

    def encode_action(self, text: str) -> list[int]:
        """The ids that a model would have sampled for this action, its end-of-turn token included."""
        ...

    def tokens_of(self, ids: Sequence[int], text: str) -> int:
        """How many of an answer's ids, from the first, say the beginning ``text`` of it; never all of them."""
        ...
