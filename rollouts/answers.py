"""A prompt form at work in an episode: the messages of what is seen, and the fields of a turn that say how it was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from envs.functions import Function
from envs.text_env import NOT_ALLOWED
from envs.types import Observation, StepResult
from rollouts.prompt_forms.form import PromptForm
from rollouts.stream import TokenStream


def listed(form: PromptForm, seen: Observation) -> list[str]:
    """The actions that a message names."""
    return sorted(seen.legal) if form.admissible else []


def message(form: PromptForm, seen: Observation) -> str:
    return form.message(seen.text, listed(form, seen))


def answered(form: PromptForm, parsed: bool, result: StepResult) -> Observation:
    """What is seen after an answer; if no action was read in it, the form says what was wrong instead of the environment."""
    seen = result.observation
    if parsed or result.over or not (form.tell_format and form.format_error):
        return seen
    text = seen.text if NOT_ALLOWED in seen.text else f"{NOT_ALLOWED}\n{seen.text}"
    return replace(seen, text=text.replace(NOT_ALLOWED, form.format_error, 1))


def meaning(
    form: PromptForm,
    said: str,
    functions: Sequence[Function],
    ids: Sequence[int] = (),
    stream: TokenStream | None = None,
) -> dict[str, Any]:
    """Fields of a ``Turn``. ``ids``: those of ``said``, where ``stream`` keeps some."""
    answer = form.understand(said, functions)
    thought_tokens = stream.tokens_of(ids, said[: answer.begins]) if stream and answer.begins else 0
    return {
        "action": answer.action,
        "answer": "" if answer.action == said else said,
        "thought": answer.thought,
        "thought_tokens": thought_tokens,
        "parsed": answer.parsed,
        "label": answer.label,
        "spans": {part: _ids_of(span, said, ids, stream) for part, span in answer.spans.items()} if stream else {},
    }


def _ids_of(span: tuple[int, int], said: str, ids: Sequence[int], stream: TokenStream) -> list[int]:
    """What ends with the answer has its end-of-turn token too."""
    first, last = (stream.tokens_of(ids, said[:place]) if place else 0 for place in span)
    return [first, len(ids) if span[1] == len(said) else last]
