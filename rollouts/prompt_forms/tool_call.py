"""Function calls in JSON, for environments whose actions are functions
(``turngrid.envs.functions``)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turngrid.envs.environment import PromptStyle
from turngrid.envs.functions import CALL_FORM, CommandFunction, Function, calls_in, calls_of, command_of
from turngrid.envs.text_env import MAX_CALLS
from turngrid.envs.types import Action, Call
from turngrid.rollouts.prompt_forms.form import UNPARSED, UNPARSED_IF_TOO_MANY, Answer, Thinking

_OPENING = re.compile(r"(<tool_call>|```\w*)\s*\Z")  # text that models write before a call
SEVERAL = f"Call one or more of these functions, each in JSON as {CALL_FORM}; you may think in words before."


@dataclass(frozen=True)
class ToolCall(Thinking):
    """JSON objects with ``name`` and ``arguments``; the text before the first is the thought.

    JSON before a ``</think>`` is not read as a call. A call that fits none of the environment's
    functions is sent to the environment, which says why.

    ``words``: an answer without a call is an action in words.
    """

    words: bool

    calls = True
    instructions = f"Call one of these functions, in JSON as {CALL_FORM}; you may think in words before it."
    cue = "Your call:"

    @property
    def format_error(self) -> str:
        thought = "words and then " if self.require_thought else ""
        return f"No call could be read in your answer: write {thought}one call in JSON as {CALL_FORM}."

    def rules(self, style: PromptStyle) -> list[str]:
        """List the functions instead of the environment's description of actions."""
        commands = all(isinstance(function, CommandFunction) for function in style.functions)
        how = self.instructions if commands or self.max_actions == 1 else SEVERAL
        if 1 < self.max_actions < MAX_CALLS:
            how = SEVERAL.replace("one or more", f"up to {self.max_actions}", 1)
        return [f"{style.role} {how}", *(function.described for function in style.functions)]

    def understand(self, text: str, functions: Sequence[Function]) -> Answer:
        return self.read(text, functions)

    def demonstrate(self, goal: str, plan: Sequence[str], functions: Sequence[Function] = ()) -> str:
        return self.write(plan[0], self.thought(goal, plan), functions)

    def read(self, text: str, functions: Sequence[Function] = ()) -> Answer:
        called = read_calls(text)
        if self.words and not called.calls:
            return Answer(text)
        if not called.calls or (self.require_thought and not called.thought):
            return UNPARSED
        calls, dropped = called.calls[: self.max_actions], max(0, len(called.calls) - self.max_actions)
        if dropped and self.too_many == UNPARSED_IF_TOO_MANY:
            return UNPARSED
        command = command_of(functions, calls[0]) if len(calls) == 1 else None
        action = str(Action(calls=calls)) if command is None else command
        return Answer(action, called.thought, called.begins, dropped=dropped)

    def write(self, action: str, thought: str, functions: Sequence[Function] = ()) -> str:
        """Return the calls for an action, which has no thought if it is in words.

        Raises:
            ValueError: no function has this action.
        """
        calls = calls_of(functions, action)
        if self.words and not calls:
            return action
        if not calls:
            raise ValueError(f"no function of this environment gives the action {action!r}")
        return f"{thought}\n{Action(calls=calls)}".lstrip()


class Called(NamedTuple):
    """The calls of an answer; ``begins``: index of their JSON; ``thought``: the text before it."""

    begins: int
    thought: str
    calls: tuple[Call, ...]


def read_calls(text: str) -> Called:
    calls = list(calls_in(text, text.rfind("</think>") + 1))
    begins = calls[0][0] if calls else len(text)
    return Called(begins, _OPENING.sub("", text[:begins]).strip(), tuple(call for *_, call in calls))
