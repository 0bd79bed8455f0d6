"""Single-player games of textarena without downloads: ``env=textarena env.id=Sokoban-v0``.

textarena loads chat clients and word lists, so only processes that make or run games import it.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.games.catalogue import few_seeds
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

# The games that were tried, with the turns of an episode; of Sokoban and GuessTheNumber they are
# textarena's.
KNOWN = {
    "Sokoban-v0": 30,
    "FrozenLake-v0": 24,
    "FrozenLake-v0-random": 24,
    "FrozenLake-v0-hardcore": 24,
    "GuessTheNumber-v0": 10,
    "GuessTheNumber-v0-hardcore": 10,
}
# The number of different games, where there are few.
_FEW = {
    "FrozenLake-v0": 364,
    "FrozenLake-v0-random": 4 * 364,
    "GuessTheNumber-v0": 20,
    "GuessTheNumber-v0-hardcore": 50,
}


@dataclass(frozen=True)
class TextArenaSettings:
    """Keys of ``env`` for ``env=textarena``; ``id`` is a game of textarena's registry."""

    id: str


class TextArena(Environment):
    """The task is the game's id. The score is textarena's degree of completion, 1 for a win."""

    name = "textarena"
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You are playing a game.", "Answer with one action and nothing else.")
    Settings = TextArenaSettings
    lists_actions = True

    @property
    def version(self) -> str:
        return f"textarena-{version('textarena')}-1"

    def parse_task(self, task: str) -> dict[str, Any]:
        if task != self.settings.id:
            raise TaskError(f"env.task={task} follows env.id={self.settings.id}; set env.id={task} instead")
        if task not in KNOWN:
            near = nearest(task, KNOWN)
            raise TaskError(f"env.id={task} is no game of env=textarena; use {near} ({', '.join(KNOWN)})")
        if find_spec("textarena") is None:
            raise TaskError('env=textarena needs textarena: pip install "turngrid[textarena]"')
        return {"id": task, "turns": KNOWN[task]}

    def max_turns(self, task: str) -> int:
        return self.parse_task(task)["turns"]

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """List a bounded number of seeds if there are few games."""
        games = _FEW.get(params["id"])
        return few_seeds(split, games) if games else None

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.textarena.env import TextArenaEnv
        from turngrid.envs.textarena.games import PLANS

        env = TextArenaEnv()
        opening = env.open(params["id"], seed)
        plan = PLANS[params["id"].split("-")[0]](env.game)
        if plan is None or len(plan) > params["turns"]:
            raise Rejected(f"not to be won within {params['turns']} turns")
        file = folder / "game.json"
        file.write_text(json.dumps({"id": params["id"], "seed": seed, "opening": opening.text}))
        facts = json.dumps([params["id"], opening.text, plan])  # the number to guess is in the plan only
        return GameRecord(
            file=file.name,
            goal=opening.goal,
            expert_plan=tuple(plan),
            fingerprint=hashlib.sha256(facts.encode()).hexdigest(),
        )

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from turngrid.envs.textarena.env import TextArenaEnv

        return TextArenaEnv(legal=legal)
