"""Functions by a chat API's own fields: ``tools`` of a request, ``tool_calls`` of an answer. In between, on record and for
the prompt form, an answer is the text that ``prompt=tool_call`` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from envs.functions import Function
from rollouts.prompt_forms.tool_call import single_call
from rollouts.prompts import Message


def tool(function: Function) -> dict[str, Any]:
    """An entry of ``tools``; every argument is a text."""
    optional = {name: name in function.optional for name in function.names}
    required = [name for name, may_lack in optional.items() if not may_lack]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in optional}, "required": required}
    described = {"name": function.name, "description": function.says, "parameters": schema}
    return {"type": "function", "function": described}


def as_text(answer: Mapping[str, Any]) -> str:
    """Its words, then its calls in JSON. Raises: KeyError, TypeError: it is not built as the API's answers are."""
    calls = [call["function"] for call in answer.get("tool_calls") or ()]
    # Some servers write "", null or nothing at all where there are no arguments
    written = [{"name": call["name"], "arguments": _read(call.get("arguments") or "{}")} for call in calls]
    lines = [str(answer.get("content") or ""), *(json.dumps(call, ensure_ascii=False) for call in written)]
    return "\n".join(line for line in lines if line)


def _read(arguments: Any) -> Any:
    """The API has them as a text of JSON; what is none stays as it is, and the form does not understand it."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def as_calls(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Earlier answers of one call as ``tool_calls``, and what was seen after them as their results."""
    found: list[dict[str, Any]] = []
    answered = ""
    for number, message in enumerate(messages):
        call = single_call(message["content"]) if message["role"] == "assistant" else None
        if call:
            answered = f"call{number:05d}"  # nine letters and digits: what Mistral's templates want
            function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
            calls = [{"id": answered, "type": "function", "function": function}]
            found.append({"role": "assistant", "content": call.thought, "tool_calls": calls})
        elif answered:
            found.append({"role": "tool", "tool_call_id": answered, "content": message["content"]})
            answered = ""
        else:
            found.append(dict(message))
    return found
