"""``<think>...</think><action>...</action>``, as in verl-agent and RAGEN."""

from __future__ import annotations

import re
from dataclasses import dataclass

from turngrid.rollouts.prompt_forms.form import UNPARSED, Answer, Thinking
from turngrid.rollouts.prompt_forms.tags import between, pair, tagged


@dataclass(frozen=True)
class ThinkAction(Thinking):
    """A thought, then exactly one action outside of thoughts; text after the action is ignored.

    A thought may lack its opening tag, since some chat templates put that into the prompt.

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
        think, _, begin, _ = self.marks
        begun = think if self._begun_in_prompt(text) else ""
        whole = begun + text
        thoughts = list(between(self.think_tag).finditer(whole))
        rest = between(self.think_tag).sub(lambda thought: " " * len(thought[0]), whole)
        action = between(self.action_tag).search(rest)
        if not action or len(_is(begin).findall(rest)) != 1 or _is(think).search(rest[: action.start()]):
            return UNPARSED
        before = [thought[1].strip() for thought in thoughts if thought.end() <= action.start()]
        answer = Answer(action[1].strip(), "\n".join(before), max(0, action.start() - len(begun)))
        return answer if before or not self.require_thought else UNPARSED

    def _begun_in_prompt(self, text: str) -> bool:
        ended = _is(self.marks[1]).search(text)
        return ended is not None and not _is(self.marks[0]).search(text[: ended.start()])

    def write(self, action: str, thought: str) -> str:
        return f"{tagged(self.think_tag, thought)}\n{tagged(self.action_tag, action)}"


def _is(mark: str) -> re.Pattern[str]:
    """Return a pattern that ignores case, since some tokenizers have one case only."""
    return re.compile(re.escape(mark), re.IGNORECASE)
