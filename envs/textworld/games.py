"""What the two environments of TextWorld's games share: how they are played, hashed and told."""

from __future__ import annotations

import functools
import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING

from envs.environment import Environment, PromptStyle

if TYPE_CHECKING:
    from envs.text_env import TextEnv


class TextWorldGames(Environment):
    """TextWorld takes a second to import, so only whoever plays or makes a game does."""

    prompt = PromptStyle(
        role="You are playing a text adventure game.",
        action_form='Answer with one action, a verb phrase such as "open box".',
    )
    lists_actions = True

    @functools.cached_property
    def version(self) -> str:
        return f"textworld-{importlib.metadata.version('textworld')}-2"

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from envs.textworld.env import TextWorldEnv

        return TextWorldEnv(legal=legal, expert=expert)

    def game_sha256(self, game_file: Path) -> str:
        from envs.textworld.story import game_sha256

        return game_sha256(game_file)
