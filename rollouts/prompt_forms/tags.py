"""Answers in tags: a thought, then an action (verl-agent, RAGEN), search or answer (Search-R1)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turngrid.envs.environment import PromptStyle
from turngrid.rollouts.prompt_forms.form import UNPARSED, Answer, Thinking

THINK, SEARCH, ANSWER = "think", "search", "answer"


def pair(name: str) -> tuple[str, str]:
    return f"<{name}>", f"</{name}>"


def between(name: str) -> re.Pattern[str]:
    """Return a pattern of a pair of tags; its group is the text between them.

    Case is ignored, since some tokenizers have upper or lower case only.
    """
    begin, end = map(re.escape, pair(name))
    return re.compile(f"{begin}(.*?){end}", re.IGNORECASE | re.DOTALL)


def tagged(name: str, text: str) -> str:
    begin, end = pair(name)
    return f"{begin}{text}{end}"


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


@dataclass(frozen=True)
class SearchTags(Thinking):
    """A thought, then one search or one answer, for environments with these two functions.

    An answer in this form with both tags, or with neither, is unparsed.
    """

    functions = (SEARCH, ANSWER)
    marks = tuple(mark for tag in (THINK, SEARCH, ANSWER) for mark in pair(tag))
    instructions = (
        f"First think it over inside {' '.join(pair(THINK))}, then search with {tagged(SEARCH, 'words')} "
        f"or end with {tagged(ANSWER, 'your answer')}."
    )

    @property
    def format_error(self) -> str:
        thought = f"{' '.join(pair(THINK))} and then " if self.require_thought else ""
        ways = f"{' '.join(pair(SEARCH))} or one {' '.join(pair(ANSWER))}"
        return f"No action could be read in your answer: write {thought}one {ways}."

    def rules(self, style: PromptStyle) -> list[str]:
        """Leave out the environment's description of actions, which are words in tags here."""
        return [f"{style.role} {self.instructions}"]

    def read(self, text: str) -> Answer:
        tags = read_tags(text, THINK, self.functions)
        if tags is None or (self.require_thought and not tags.thoughts):
            return UNPARSED
        words = " ".join(tags.content.split())  # the environment reads one line
        return Answer(f"{tags.tag} {words}", "\n".join(tags.thoughts), tags.begins)

    def write(self, action: str, thought: str) -> str:
        """Return an answer.

        Raises:
            ValueError: the action is neither a search nor an answer.
        """
        tag, _, words = action.partition(" ")
        if tag not in self.functions:
            raise ValueError(f"prompt=search_tags writes searches and answers, not {action!r}")
        return f"{tagged(THINK, thought)}\n{tagged(tag, words)}"


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
