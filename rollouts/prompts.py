"""Chat messages. Their words are a prompt form's (``rollouts.prompt_forms``)."""

from __future__ import annotations

Message = dict[str, str]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}
