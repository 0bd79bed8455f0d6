"""BFCL's multi-turn function calling: ``env=bfcl env.task=base``.

A scripted user makes one request after another; the agent calls functions of services that keep
their state. bfcl-eval's own executor is never used, since it evaluates a model's words as Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.bfcl.functions import END_TURN
from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
SCENARIOS = 200  # the categories vary the same ones
# The last digits of the scenarios of a split; consecutive scenarios use the same services.
SPLIT_DIGITS = {"test": "0123", "validation": "4", "demonstrations": "56", "train": "789"}


@dataclass(frozen=True)
class BfclSettings:
    end_by_words: bool


class Bfcl(Environment):
    """Tasks: one of ``CATEGORIES``, or ``all``. A seed is a category and a scenario's number."""

    name = "bfcl"
    turns = 40
    package = "bfcl-eval"
    modules = ("bfcl_eval",)
    install = "pip install --no-deps bfcl-eval==2026.3.23"
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You serve a user by calling functions.", functions=(END_TURN,))
    Settings = BfclSettings
    Env = "turngrid.envs.bfcl.env:BfclEnv"
    examples = (*CATEGORIES, "all")
    settings: BfclSettings

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_task(task)
        return {"categories": list(CATEGORIES) if task == "all" else [task]}

    def seeds(self, params: Params, split: str) -> Sequence[int]:
        numbers = [number for number in range(SCENARIOS) if str(number)[-1] in SPLIT_DIGITS.get(split, "")]
        first = [SCENARIOS * CATEGORIES.index(category) for category in params["categories"]]
        return [start + number for number in numbers for start in first]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.bfcl.env import write_game

        category, number = divmod(seed, SCENARIOS)
        return write_game(CATEGORIES[category], number, folder)
