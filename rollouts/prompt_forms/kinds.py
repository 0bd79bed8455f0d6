"""Answers of several kinds: HiPER's (arXiv 2602.16165) and RLVMR's (arXiv 2507.22844)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from turngrid.envs.functions import Function
from turngrid.rewards.shaping.penalties import KEEP, SWITCH
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.prompt_forms.form import PLANNED, UNPARSED, Answer, PromptForm, Thinking
from turngrid.rollouts.prompt_forms.tags import between, pair, tagged

PARTS = ("switch", "subgoal", "action")
TEXTS = (f"{KEEP} or {SWITCH}", "what you are after, the same as before after KEEP", "your answer")
TAGS = ("planning", "explore", "reflection", "monitor")
KINDS = ", ".join(tagged(tag, "") for tag in TAGS)
_TAGGED = re.compile(rf"\s*<({'|'.join(TAGS)})>(.*?)</\1>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Hiper(PromptForm):
    """``<switch>KEEP|SWITCH</switch><subgoal>...</subgoal><action>...</action>``.

    An empty or missing first tag means KEEP, any other text SWITCH. An answer without action tags
    counts as unparsed and is sent to the environment whole. The subgoal is recorded as the thought.
    A part includes its tags; the action's part extends to the end of the answer.
    """

    demo_actions: int = field(metadata={"range": (1, 10**6)})

    labels = (KEEP, SWITCH)
    parts = PARTS
    marks = tuple(mark for part in PARTS for mark in pair(part))
    instructions = f"Write {''.join(map(tagged, PARTS, TEXTS))}."
    format_error = f"Your answer had no {tagged('action', '')}: write {''.join(tagged(part, '') for part in PARTS)}."
    cue = "Your subgoal and action:"

    def recalled(self, turns: Sequence[Turn]) -> str:
        recalled = super().recalled(turns)
        return f"Your last subgoal: {turns[-1].thought}\n{recalled}" if turns else recalled

    def read(self, text: str) -> Answer:
        matches = {part: match for part in PARTS if (match := between(part).search(text))}
        texts = {part: match[1].strip() for part, match in matches.items()}
        spans = {part: match.span() for part, match in matches.items()}
        if "action" in matches:
            spans["action"] = matches["action"].start(), len(text)
        return Answer(
            texts.get("action", text),
            texts.get("subgoal", ""),
            begins=spans.get("action", (0, 0))[0],
            parsed="action" in matches,
            label=KEEP if texts.get("switch", "").upper() in ("", KEEP) else SWITCH,
            spans=spans,
        )

    def write(self, action: str, thought: str) -> str:
        return self._written(SWITCH, thought, action)

    def demonstrate(self, goal: str, plan: Sequence[str], functions: Sequence[Function] = ()) -> str:
        """Count subgoals from the end of the plan: they are the same at each of its actions."""
        left = len(plan) - 1
        switch = KEEP if (left + 1) % self.demo_actions else SWITCH
        return self._written(switch, plan[left % self.demo_actions].split("\n")[0], plan[0])

    @staticmethod
    def _written(*parts: str) -> str:
        return "".join(map(tagged, PARTS, parts))


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
        kind = _TAGGED.match(text)
        if kind is None and self.require_thought:
            return UNPARSED
        begins = kind.end() if kind else 0
        actions = list(between("action").finditer(text, begins))
        if len(actions) != 1:
            return UNPARSED
        label, thought = (kind[1].lower(), kind[2].strip()) if kind else ("", text[: actions[0].start()].strip())
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
