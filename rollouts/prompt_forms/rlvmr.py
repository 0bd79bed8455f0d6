"""RLVMR's answers (arXiv 2507.22844): a thought in a tag that names its kind, and the action."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from turngrid.envs.functions import Function
from turngrid.rollouts.prompt_forms.form import PLANNED, UNPARSED, Answer, Thinking
from turngrid.rollouts.prompt_forms.tags import between, pair, tagged

TAGS = ("planning", "explore", "reflection", "monitor")
KINDS = ", ".join(tagged(tag, "") for tag in TAGS)
_TAGGED = re.compile(rf"\s*<({'|'.join(TAGS)})>(.*?)</\1>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Rlvmr(Thinking):
    """``<planning>...</planning><action>...</action>``, or with another of ``TAGS``.

    The first tag counts. With ``require_thought``, an answer that does not begin with one is
    unparsed. Demonstrations alternate planning and monitor.
    """

    labels = TAGS
    marks = tuple(mark for tag in (*TAGS, "action") for mark in pair(tag))
    instructions = f"First think inside one of {KINDS}, then put your answer inside {tagged('action', '')}."

    @property
    def format_error(self) -> str:
        thought = f"begin with one of {KINDS}, " if self.require_thought else ""
        return f"No action could be read in your answer: {thought}then write one {tagged('action', '')}."

    def read(self, text: str) -> Answer:
        match = _TAGGED.match(text)
        if match is None and self.require_thought:
            return UNPARSED
        begins = match.end() if match else 0
        actions = list(between("action").finditer(text, begins))
        if len(actions) != 1:
            return UNPARSED
        label, thought = (match[1].lower(), match[2].strip()) if match else ("", text[: actions[0].start()].strip())
        return Answer(actions[0][1].strip(), thought, actions[0].start(), label=label)

    def write(self, action: str, thought: str) -> str:
        return self._written("planning", thought, action)

    def demonstrate(self, goal: str, plan: Sequence[str], functions: Sequence[Function] = ()) -> str:
        """Alternate the tags, counted from the end of the plan."""
        tag = "monitor" if len(plan) % PLANNED else "planning"
        return self._written(tag, self.thought(goal, plan), plan[0])

    @staticmethod
    def _written(tag: str, thought: str, action: str) -> str:
        return f"{tagged(tag, thought)}{tagged('action', action)}"
