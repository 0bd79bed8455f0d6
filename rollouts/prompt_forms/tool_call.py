"""Function calls in JSON, for environments whose actions are functions
(``turngrid.envs.functions``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from turngrid.envs.environment import PromptStyle
from turngrid.envs.functions import Function, call_of, command_of
from turngrid.rollouts.prompt_forms.form import UNPARSED, Answer, Thinking

_OPENING = re.compile(r"(<tool_call>|```\w*)\s*\Z")  # text that models write before a call
EXAMPLE = '{"name": NAME, "arguments": {NAME: VALUE}}'


@dataclass(frozen=True)
class ToolCall(Thinking):
    """One JSON object with ``name`` and ``arguments``; the text before it is the thought.

    JSON before a ``</think>`` is not read as a call. A call that fits none of the environment's
    functions is sent to the environment as it is, which rejects it.
    """

    calls: ClassVar[bool] = True

    @property
    def instructions(self) -> str:
        return f"Call one of these functions, in JSON as {EXAMPLE}; you may think in words before it."

    @property
    def format_error(self) -> str:
        thought = "words and then " if self.require_thought else ""
        return f"No call could be read in your answer: write {thought}one call in JSON as {EXAMPLE}."

    @property
    def cue(self) -> str:
        return "Your call:"

    def head(self, style: PromptStyle, goal: str, guidance: str = "") -> str:
        """List the functions instead of the environment's description of actions."""
        listed = [function.described for function in style.functions]
        lines = [f"{style.role} {self.instructions}", *listed, guidance, f"Goal: {goal}"]
        return "".join(f"{line}\n" for line in lines if line)

    def understand(self, text: str, functions: Sequence[Function]) -> Answer:
        return self.read(text, functions)

    def demonstrate(self, goal: str, plan: Sequence[str], functions: Sequence[Function] = ()) -> str:
        return self.write(plan[0], self.thought(goal, plan), functions)

    def read(self, text: str, functions: Sequence[Function] = ()) -> Answer:
        call = single_call(text)
        if call is None or (self.require_thought and not call.thought):
            return UNPARSED
        known = command_of(functions, call.name, call.arguments)
        return Answer(_call(call.name, call.arguments) if known is None else known, call.thought, call.begins)

    def write(self, action: str, thought: str, functions: Sequence[Function] = ()) -> str:
        """Return the call for an action.

        Raises:
            ValueError: no function has this action.
        """
        if (call := call_of(functions, action)) is None:
            raise ValueError(f"no function of this environment gives the action {action!r}")
        return f"{thought}\n{_call(*call)}".lstrip()


class SingleCall(NamedTuple):
    """A call; ``begins``: index of its JSON in the text; ``thought``: the text before it."""

    begins: int
    thought: str
    name: str
    arguments: dict[str, Any]


def single_call(text: str) -> SingleCall | None:
    """Return the call in a text, or None if it has none or several."""
    calls = list(_calls(text, text.rfind("</think>") + 1))
    if len(calls) != 1:
        return None
    begins, name, arguments = calls[0]
    return SingleCall(begins, _OPENING.sub("", text[:begins]).strip(), name, arguments)


def _call(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def _calls(text: str, start: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the index, function name and arguments of each call."""
    decoder = json.JSONDecoder()
    while (start := text.find("{", start)) >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
            continue
        name, arguments = value.get("name"), _arguments(value)
        if isinstance(name, str) and isinstance(arguments, dict):
            yield start, name, arguments
        start = end


def _arguments(call: dict[str, Any]) -> Any:
    """Return a call's arguments; some models name them parameters, or write a JSON string."""
    arguments = call.get("arguments", call.get("parameters", {}))
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None
