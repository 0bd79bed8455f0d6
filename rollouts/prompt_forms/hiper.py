"""HiPER's answers (arXiv 2602.16165): keep or switch the subgoal, the subgoal, the action."""

from collections.abc import Sequence
from dataclasses import dataclass

from turngrid.envs.functions import Function
from turngrid.rewards.declared import number
from turngrid.rewards.shaping.subgoals import KEEP, SWITCH
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.prompt_forms.form import Answer, PromptForm
from turngrid.rollouts.prompt_forms.tags import between, pair, tagged

PARTS = ("switch", "subgoal", "action")
TEXTS = (f"{KEEP} or {SWITCH}", "what you are after, the same as before after KEEP", "your answer")


@dataclass(frozen=True)
class Hiper(PromptForm):
    """``<switch>KEEP|SWITCH</switch><subgoal>...</subgoal><action>...</action>``.

    An empty or missing first tag means KEEP, any other text SWITCH. An answer without action tags
    counts as unparsed and is sent to the environment whole. The subgoal is recorded as the thought.
    A part includes its tags; the action's part extends to the end of the answer.
    """

    demo_actions: int = number(1, 10**6)

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
