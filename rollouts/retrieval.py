"""A library's text in an episode: cut to its limit, and shown before a turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.stream import Message, TokenStream


class Library(Protocol):
    """A library (``turngrid.algorithms.slots``), as an episode uses it."""

    tokens: int

    def look_up(self, task: str, observation: str, step: int) -> str: ...


@dataclass(frozen=True)
class Frozen:
    """A library as training left it at ``step``, for evaluation."""

    library: Library
    step: int

    @property
    def tokens(self) -> int:
        return self.library.tokens

    def look_up(self, task: str, observation: str, step: int) -> str:
        return self.library.look_up(task, observation, self.step)


@dataclass(frozen=True)
class Retrieved:
    """A text of at most the library's ``tokens``, and how many it has."""

    text: str = ""
    tokens: int = 0


NOTHING = Retrieved()


def retrieved(library: Library, task: str, observation: str, step: int, stream: TokenStream) -> Retrieved:
    """Look up the text for a turn; leave out last words beyond the limit."""
    text = library.look_up(task, observation, step)
    lines = text.split("\n")
    while lines and _tokens("\n".join(lines), stream) > library.tokens:
        *lines, last = lines
        if not lines:  # one line is longer than the limit
            words = last.split(" ")[:-1]
            lines = [" ".join(words)] if words else []
    kept = "\n".join(lines)
    return Retrieved(kept, _tokens(kept, stream)) if kept else NOTHING


def _tokens(text: str, stream: TokenStream) -> int:
    return len(stream.encode_action(text)) - 1  # without the end of turn


def lines_of(*texts: str) -> str:
    """Return the texts that are not empty, each on lines of its own."""
    return "\n".join(text for text in texts if text)


def with_text(form: PromptForm, shown: Sequence[Message], text: str) -> list[Message]:
    """Return the messages before a turn with a text between the observation and the cue."""
    if not text:
        return list(shown)
    *before, last = shown
    content = f"{last['content'].removesuffix(form.cue)}{text}\n{form.cue}"
    return [*before, {**last, "content": content}]
