"""ALFWorld: household tasks in text, generated here or from the official data."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.alfworld import kinds, official
from turngrid.envs.alfworld.official import Games
from turngrid.envs.environment import NEED_PLAN, Environment, GameRecord, Params, PromptStyle
from turngrid.envs.types import EnvError, TaskError


@dataclass(frozen=True)
class AlfWorldSettings:
    task_types: list[str]
    test_split: str = field(metadata={"choices": ("valid_unseen", "valid_seen")})
    data_dir: str
    expert: str = field(metadata={"choices": ("searcher", "plan")})
    expert_max_commands: int = field(metadata={"range": (1, 1000)})


class AlfWorld(Environment):
    """Tasks: ``one_type``, ``four_types``, ``all_types``, or one of the six types by its name."""

    name = "alfworld"
    package = "alfworld"
    modules = ("alfworld",)
    install = "pip install alfworld"
    rewards = ("sparse", "dense")
    prompt = PromptStyle(
        role="You are in a house and have a task to do there.",
        action_form='Answer with one action, such as "go to drawer 1", "take mug 1 from desk 2" or "open fridge 1".',
    )
    Settings = AlfWorldSettings
    Env = "turngrid.envs.alfworld.env:AlfWorldEnv"
    lists_actions = True
    examples = (*kinds.MIXTURES, *kinds.TYPES)
    settings: AlfWorldSettings

    def __init__(self, settings: AlfWorldSettings) -> None:
        super().__init__(settings)
        self._listed = functools.cache(self._games)  # a worker makes thousands of games from a listing

    def parse_task(self, task: str) -> dict[str, Any]:
        """Return which types a task draws from, and the source of its games."""
        self.check_task(task)
        types = kinds.task_types(str(task), self.settings.task_types)
        source = "official" if official.folder(self.settings.data_dir) else "generated"
        return {"types": types, "source": source}

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """Add what the split decides.

        Generated games: the floor plans, and the expert if it is not the maker's plan. Official
        games: the folder, its listing, and whether a game needs a plan.
        """
        folder = {"test": self.settings.test_split, "validation": "valid_seen"}.get(split, "train")
        needs_plan = split in NEED_PLAN
        plan = {"expert": self.settings.expert, "limit": self.settings.expert_max_commands} if needs_plan else {}
        if params["source"] == "generated":
            searched = plan if split == "demonstrations" and self.settings.expert == "searcher" else {}
            return {**params, "floor_plans": "unseen" if folder == "valid_unseen" else "train", **searched}
        listing = self._games(folder).listing
        return {**params, "folder": folder, "listing": listing, "needs_plan": needs_plan, **plan}

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        if params["source"] == "generated":
            return None
        return self._games(params["folder"]).seeds(params["types"])

    def _games(self, folder: str) -> Games:
        root = official.folder(self.settings.data_dir)
        if root is None:  # env.data_dir is empty, or ``official.folder`` would have raised
            reason = "$ALFWORLD_DATA no longer names the official data"
            raise TaskError(f"env.data_dir=: {reason}; run alfworld-download, or use env.data_dir=FOLDER")
        return official.games(root, folder)

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.alfworld import games as making

        if params["source"] == "generated":
            return making.generated(params, seed, folder)
        listed = self._listed(params["folder"])
        if listed.listing != params["listing"]:
            raise EnvError("the games in env.data_dir changed while they were listed")
        return making.from_data(params, listed.file(seed), folder)
