"""Chat messages, and the protocol for an episode's token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Message = dict[str, str]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


class TokenStream(Protocol):
    """A growing sequence of token ids. Added ids are never decoded and encoded again."""

    @property
    def ids(self) -> Sequence[int]: ...

    def start(self, messages: Sequence[Message]) -> list[int]:
        """Render the first prompt, generation prompt included, and return its ids."""
        ...

    def add_sampled(self, ids: Sequence[int]) -> None:
        """Append an answer exactly as it was sampled."""
        ...

    def add_context(self, messages: Sequence[Message]) -> list[int]:
        """Append messages that the model did not write, and return the ids added.

        These are the end of the action if it is missing, the next observation, and the generation
        prompt.
        """
        ...

    def encode_action(self, text: str) -> list[int]:
        """Return the ids that a model would sample for this answer, end-of-turn token included."""
        ...

    def tokens_of(self, ids: Sequence[int], text: str) -> int:
        """Return how many of an answer's ids, from the first, spell its beginning ``text``.

        Never all of them.
        """
        ...
