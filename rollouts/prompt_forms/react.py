"""ReAct's lines (arXiv 2210.03629): ``Thought: ...`` and ``Action: ...``."""

import re
from dataclasses import dataclass

from turngrid.rollouts.prompt_forms.form import UNPARSED, Answer, Thinking

_OBSERVATION = re.compile(r"^[ \t]*observation[ \t]*:", re.IGNORECASE | re.MULTILINE)
_ACTION = re.compile(r"^[ \t]*action[ \t]*:[ \t]*", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"^[ \t]*thought[ \t]*:[ \t]*", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class React(Thinking):
    """The action follows the only line that begins with ``Action:``, up to the next thought.

    An invented ``Observation:`` and everything after it are ignored.
    """

    instructions = 'Write a line "Thought: " with your thoughts, then a line "Action: " with your answer.'

    @property
    def format_error(self) -> str:
        thought = 'a line "Thought: " and then ' if self.require_thought else ""
        return f'No action could be read in your answer: write {thought}one line "Action: ".'

    def read(self, text: str) -> Answer:
        invented = _OBSERVATION.search(text)
        parts = _ACTION.split(text[: invented.start()] if invented else text)
        if len(parts) != 2:
            return UNPARSED
        thought, action = parts
        if self.require_thought and not thought.strip():
            return UNPARSED
        return Answer(_THOUGHT.split(action)[0].strip(), _THOUGHT.sub("", thought, count=1).strip(), len(thought))

    def write(self, action: str, thought: str) -> str:
        return f"Thought: {thought}\nAction: {action}"
