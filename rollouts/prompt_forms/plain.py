"""The answer is the action: the study's protocol, no list of legal commands, no system message."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.prompt_forms.form import Answer, PromptForm


@dataclass(frozen=True)
class Plain(PromptForm):
    """Whether there is an action in it, the environment says."""

    @property
    def format_error(self) -> str:
        return ""

    def read(self, text: str) -> Answer:
        return Answer(text)

    def write(self, action: str, thought: str) -> str:
        return action


PLAIN_FORM = Plain()
