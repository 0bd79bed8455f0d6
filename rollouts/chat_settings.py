"""Chat templates of RL rollouts, SFT rows, evaluations and chat endpoints alike.

The keys are verl's: ``data.apply_chat_template_kwargs`` (``enable_thinking`` and other variables of
the chat template) and ``actor_rollout_ref.model.custom_chat_template``. verl passes both to its
rollouts; all other code reads them in ``Run.chat``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ChatSettings:
    """Settings of a chat template.

    Args:
        kwargs: variables that the template is rendered with.
        template: replaces the model's own template; has no effect at an endpoint.
    """

    kwargs: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None

    def over(self, other: ChatSettings) -> ChatSettings:
        """Return these settings, with missing ones taken from ``other``."""
        return ChatSettings({**other.kwargs, **self.kwargs}, self.template or other.template)

    def apply(self, tokenizer: Any) -> None:
        if self.template:
            tokenizer.chat_template = self.template
