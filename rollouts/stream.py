"""Chat messages, and the protocol for an episode's token ids."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol

Message = dict[str, str]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def tool(text: str) -> Message:
    return {"role": "tool", "content": text}


def joined(messages: Sequence[Message]) -> str:
    """Return what follows an answer as one text."""
    return "\n".join(message["content"] for message in messages)


def in_words(run: Sequence[Message]) -> list[Message]:
    """Return a run of messages, with results as one message of the user."""
    return [user(joined(run))] if run[0]["role"] == "tool" else list(run)


def runs(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield runs of messages with the same role."""
    for _, run in groupby(messages, key=lambda message: message["role"]):
        yield list(run)


class TokenStream(Protocol):
    """A growing sequence of token ids. Added ids are never decoded and encoded again."""

    @property
    def ids(self) -> Sequence[int]: ...

    def start(self, messages: Sequence[Message]) -> list[int]:
        """Render the first prompt, generation prompt included, and return its ids."""

    def add_sampled(self, ids: Sequence[int]) -> None:
        """Append an answer exactly as it was sampled."""

    def add_context(self, messages: Sequence[Message]) -> list[int]:
        """Append one user message or results of the role tool, and return the ids added.

        These are the end-of-turn token if missing, the messages, and the generation prompt.
        """

    def encode_action(self, text: str) -> list[int]:
        """Return the ids that a model would sample for this answer, end-of-turn token included."""

    def tokens_of(self, ids: Sequence[int], text: str) -> int:
        """Return how many of an answer's ids, from the first, spell its beginning ``text``.

        Never all of them.
        """
