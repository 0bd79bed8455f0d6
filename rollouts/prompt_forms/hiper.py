"""HiPER's answers (arXiv 2602.16165): whether the subgoal stays, the subgoal, the action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from envs.functions import Function
from rewards.shaping.subgoals import KEEP, SWITCH
from rollouts.episode import Turn
from rollouts.prompt_forms.form import Answer, PromptForm
from rollouts.prompt_forms.tags import between, pair, tagged

PARTS = ("switch", "subgoal", "action")


@dataclass(frozen=True)
class Hiper(PromptForm):
    """``<switch>KEEP|SWITCH</switch><subgoal>...</subgoal><action>...</action>``. Whatever else stands in the first tag is SWITCH, and
    KEEP where that tag or its text is missing. An answer without an action's tags counts as unparsed, and goes to the environment
    whole all the same. The subgoal stands where other forms have the thought; a part's tags belong to it, and the end of the
    answer to the action.

    Attributes:
        demo_actions: in demonstrations, how many actions of the expert plan share a subgoal, which is the last of them.
    """

    demo_actions: int = field(default=2, metadata={"range": (1, 10**6)})

    labels: ClassVar[tuple[str, ...]] = (KEEP, SWITCH)
    parts: ClassVar[tuple[str, ...]] = PARTS

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for part in PARTS for mark in pair(part))

    @property
    def instructions(self) -> str:
        told = (f"{KEEP} or {SWITCH}", "what you are after, the same as before after KEEP", "your answer")
        return f"Write {''.join(map(tagged, PARTS, told))}."

    @property
    def format_error(self) -> str:
        return f"Your answer had no {tagged('action', '')}: write {''.join(tagged(part, '') for part in PARTS)}."

    @property
    def cue(self) -> str:
        return "Your subgoal and action:"

    def recalled(self, turns: Sequence[Turn]) -> str:
        told = super().recalled(turns)
        return f"Your last subgoal: {turns[-1].thought}\n{told}" if turns else told

    def read(self, text: str) -> Answer:
        found = {part: match for part in PARTS if (match := between(part).search(text))}
        said = {part: match[1].strip() for part, match in found.items()}
        spans = {part: match.span() for part, match in found.items()}
        if "action" in found:
            spans["action"] = found["action"].start(), len(text)
        return Answer(
            said.get("action", text),
            said.get("subgoal", ""),
            begins=spans.get("action", (0, 0))[0],
            parsed="action" in found,
            label=KEEP if said.get("switch", "").upper() in ("", KEEP) else SWITCH,
            spans=spans,
        )

    def write(self, action: str, thought: str) -> str:
        return self._written(SWITCH, thought, action)

    def demonstrate(self, goal: str, plan: Sequence[str], functions: Sequence[Function] = ()) -> str:
        """Subgoals are counted from the end of the plan, so that each of its answers says the same of them."""
        left = len(plan) - 1
        switch = KEEP if (left + 1) % self.demo_actions else SWITCH
        return self._written(switch, plan[left % self.demo_actions].split("\n")[0], plan[0])

    @staticmethod
    def _written(*parts: str) -> str:
        return "".join(map(tagged, PARTS, parts))
