"""textarena's two-player games without downloads: ``env=two_player env.id=TicTacToe-v0``."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.games.catalogue import few_seeds
from turngrid.envs.text_env import TextEnv
from turngrid.envs.textarena.rules import BEST
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

# The games, with the turns of each seat at most.
KNOWN = {
    "TicTacToe-v0": 5,
    "KuhnPoker-v0": 9,
    "ConnectFour-v0": 21,
    "Nim-v0": 6,
    "SimpleNegotiation-v0": 6,
    "PigDice-v0": 100,
}
DEALT = ("KuhnPoker-v0", "SimpleNegotiation-v0", "PigDice-v0")  # the seed deals; others begin with random moves
PLIES = 3  # random moves at most
_OPENINGS = {"TicTacToe-v0": 334, "Nim-v0": 110, "KuhnPoker-v0": 216}  # where there are few


@dataclass(frozen=True)
class TwoPlayerSettings:
    """Keys of ``env`` for ``env=two_player``.

    Attributes:
        id: a game of textarena's registry.
        errors: invalid answers in a row that are asked again; the next one loses the game.
    """

    id: str
    errors: int = field(metadata={"range": (0, 100)})


class TwoPlayer(Environment):
    """The task is the game's id. A seat scores 1 for a win, 0 for a draw and -1 for a loss."""

    name = "two_player"
    rewards = ("zero_sum", "sparse")
    prompt = PromptStyle("You are playing a game against another player.", "Answer with one action and nothing else.")
    Settings = TwoPlayerSettings
    seats = ("0", "1")

    @property
    def version(self) -> str:
        return f"textarena-{version('textarena')}-1"

    @property
    def lists_actions(self) -> bool:  # type: ignore[override]
        return self.settings.id != "SimpleNegotiation-v0"

    @property
    def opponents(self) -> tuple[str, ...]:
        exact = self.settings.id.partition("-")[0] in BEST
        return ("random", "first", "exact") if exact else ("random", "first")

    def parse_task(self, task: str) -> dict[str, Any]:
        if task != self.settings.id:
            raise TaskError(f"env.task={task} follows env.id={self.settings.id}; set env.id={task} instead")
        if task not in KNOWN:
            near = nearest(task, KNOWN)
            raise TaskError(f"env.id={task} is no game of env=two_player; use {near} ({', '.join(KNOWN)})")
        if find_spec("textarena") is None:
            raise TaskError('env=two_player needs textarena: pip install "turngrid[textarena]"')
        return {"id": task, "errors": self.settings.errors}

    def max_turns(self, task: str) -> int:
        return KNOWN[self.parse_task(task)["id"]] * (1 + self.settings.errors)

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """List a bounded number of seeds if there are few openings."""
        openings = _OPENINGS.get(params["id"])
        return few_seeds(split, openings) if openings else None

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Deal, or draw the first moves; there is no expert plan."""
        from turngrid.envs.textarena.match import MatchEnv

        plies = 0 if params["id"] in DEALT else Random(seed).randint(0, PLIES)
        env = MatchEnv()
        env.open(params["id"], seed, plies, params["errors"])
        if env.over:
            raise Rejected("its random moves end the game")
        game = {"id": params["id"], "seed": seed, "plies": plies, "errors": params["errors"], "facts": env.facts()}
        file = folder / "game.json"
        file.write_text(json.dumps(game))
        return GameRecord(
            file=file.name, fingerprint=hashlib.sha256(f"{params['id']} {env.facts()}".encode()).hexdigest()
        )

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        """Legal and best actions are always listed: opponents choose among them."""
        from turngrid.envs.textarena.match import MatchEnv

        return MatchEnv()
