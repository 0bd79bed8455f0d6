"""``<think>...</think><action>...</action>``, as in verl-agent and RAGEN."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turngrid.rollouts.prompt_forms.form import UNPARSED, Answer, Thinking
from turngrid.rollouts.prompt_forms.tags import between, pair, tagged


@dataclass(frozen=True)
class ThinkAction(Thinking):
    """A thought, then exactly one action outside of thoughts; text after the action is ignored.

    Raises:
        ValueError: the tags are equal, or not words.
    """

    think_tag: str
    action_tag: str

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("think_tag", "action_tag"):
            if not re.fullmatch(r"[A-Za-z][\w-]*", getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)} must be a word of letters, digits, - and _")
        if self.think_tag == self.action_tag:
            raise ValueError(f"think_tag and action_tag are both {self.think_tag}: they must differ")

    @property
    def marks(self) -> tuple[str, ...]:
        return *pair(self.think_tag), *pair(self.action_tag)

    @property
    def instructions(self) -> str:
        think, end_think, action, end_action = self.marks
        return f"First think it over inside {think} {end_think}, then put your answer inside {action} {end_action}."

    @property
    def format_error(self) -> str:
        think, end_think, action, end_action = self.marks
        thought = f"{think} {end_think} and then " if self.require_thought else ""
        return f"No action could be read in your answer: write {thought}one {action} {end_action}."

    def read(self, text: str) -> Answer:
        tags = read_tags(text, self.think_tag, (self.action_tag,))
        if tags is None or (self.require_thought and not tags.thoughts):
            return UNPARSED
        return Answer(tags.content, "\n".join(tags.thoughts), tags.begins)

    def write(self, action: str, thought: str) -> str:
        return f"{tagged(self.think_tag, thought)}\n{tagged(self.action_tag, action)}"


class Tags(NamedTuple):
    """An answer's action: its tag, what is inside, the thoughts before it, and where it begins."""

    tag: str
    content: str
    thoughts: list[str]
    begins: int


def read_tags(text: str, think: str, tags: Sequence[str]) -> Tags | None:
    """Read thoughts and the one action, in one of ``tags``; None if there is not exactly one.

    A thought may lack its opening tag, since some chat templates put that into the prompt.
    """
    opening, _ = pair(think)
    begun = opening if _begun_in_prompt(text, think) else ""
    whole = begun + text
    thoughts = list(between(think).finditer(whole))
    rest = between(think).sub(lambda thought: " " * len(thought[0]), whole)
    begins = [tag for tag in tags for _ in _is(pair(tag)[0]).finditer(rest)]
    action = between(begins[0]).search(rest) if len(begins) == 1 else None
    if not action or _is(opening).search(rest[: action.start()]):
        return None
    before = [thought[1].strip() for thought in thoughts if thought.end() <= action.start()]
    return Tags(begins[0], action[1].strip(), before, max(0, action.start() - len(begun)))


def _begun_in_prompt(text: str, think: str) -> bool:
    opening, closing = pair(think)
    ended = _is(closing).search(text)
    return ended is not None and not _is(opening).search(text[: ended.start()])


def _is(mark: str) -> re.Pattern[str]:
    """Return a pattern that ignores case, since some tokenizers have one case only."""
    return re.compile(re.escape(mark), re.IGNORECASE)
