"""Single-player games of textarena that need nothing downloaded: ``env=textarena env.id=Sokoban-v0``.

textarena brings chat clients and word lists along, so it is imported by workers and makers only.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected
from envs.games.catalogue import SPLITS
from envs.text_env import RawStep, TextEnv, accepted_file
from envs.textarena.plans import PLANS, legal_words
from envs.types import EnvError, Observation, TaskError, TaskRef
from envs.utils.names import nearest


@dataclass(frozen=True)
class Known:
    """``turns`` of an episode; ``games``: how many different ones there are, where they are few."""

    turns: int
    games: int | None = None


# The games that were tried here. The turns of Sokoban and GuessTheNumber are textarena's own.
KNOWN = {
    "Sokoban-v0": Known(30),
    "FrozenLake-v0": Known(24, 364),
    "FrozenLake-v0-random": Known(24, 4 * 364),
    "FrozenLake-v0-hardcore": Known(24),
    "GuessTheNumber-v0": Known(10, 20),
    "GuessTheNumber-v0-hardcore": Known(10, 50),
}
SEEDS_A_GAME = 20


@dataclass(frozen=True)
class TextArenaSettings:
    """``id``: a game of textarena's registry."""

    id: str


class TextArena(Environment):
    """The task is the game's id. The score is textarena's own degree of completion, 1 for a win."""

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
            raise TaskError(f"env.id={task} is no game of env=textarena; did you mean {near}? ({', '.join(KNOWN)})")
        if find_spec("textarena") is None:
            raise TaskError('env=textarena needs textarena: pip install "turngrid[textarena]"')
        return {"id": task, "turns": KNOWN[task].turns}

    def max_turns(self, task: str) -> int:
        return self.parse_task(task)["turns"]

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """Where there are few games, seeds enough to meet each of them, almost surely."""
        games, bounds = KNOWN[params["id"]].games, SPLITS[split]
        if games is None:
            return None
        return range(bounds.first, min(bounds.last, bounds.first + SEEDS_A_GAME * games - 1) + 1)

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        env = TextArenaEnv()
        opening = env.open(params["id"], seed)
        plan = PLANS[params["id"].split("-")[0]](env.game)
        if plan is None or len(plan) > params["turns"]:
            raise Rejected(f"not to be won within {params['turns']} turns")
        if not all(env.play(word).won == (index + 1 == len(plan)) for index, word in enumerate(plan)):
            raise Rejected("the expert plan does not win")
        file = folder / "game.json"
        file.write_text(json.dumps({"id": params["id"], "seed": seed, "opening": opening.text}))
        facts = json.dumps([params["id"], opening.text, plan])  # a number to be guessed shows in the plan alone
        return GameRecord(
            file=file.name,
            sha256=self.game_sha256(file),
            goal=opening.goal,
            expert_plan=tuple(plan),
            fingerprint=hashlib.sha256(facts.encode()).hexdigest(),
            max_score=1.0,
        )

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return TextArenaEnv(legal=legal)


class TextArenaEnv(TextEnv):
    """One game at a time. Its own turn limit and its patience with invalid moves (one) are lifted: an episode has turns
    of its own, and an invalid move is just a turn."""

    def __init__(self, *, legal: bool = False) -> None:
        self._tell_legal = legal

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        game = json.loads(accepted_file(task).read_text())
        opening = self.open(game["id"], game["seed"])
        if opening.text != game["opening"]:
            raise EnvError(f"{task.key}: this textarena ({version('textarena')}) makes another game of its seed")
        return opening

    def open(self, game_id: str, seed: int) -> Observation:
        """Start a game by its seed, which fixes all that it draws."""
        import textarena

        self.game: Any = textarena.make(f"{game_id}-raw")
        self.game.reset(num_players=1, seed=seed)
        self.game.max_turns = self.game.state.max_turns = self.game.state.error_allowance = sys.maxsize
        self._goal, self._board = "", ""
        return self._read()

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).strip("[]").lower()

    def step_game(self, command: str) -> RawStep:
        return self.play(command)

    def play(self, command: str) -> RawStep:
        """One move, already clean."""
        over, _ = self.game.step(f"[{command}]")
        state = self.game.state
        score = float(state.rewards[0] if over else self.game._get_percentage_completion())
        won = over and score >= 1.0
        seen = self._read(state.game_info[0]["reason"] if over else "")
        return RawStep(seen, score, won=won, lost=over and not won, valid=state.error_count == 0)

    def _read(self, ending: str = "") -> Observation:
        """What the game has said since the last look, and its board, which it shows only after a valid move."""
        said = []
        for _, words, kind in self.game.state.get_current_player_observation():
            text = "\n".join(line.strip() for line in words.splitlines() if line.strip())
            if kind.name == "PROMPT":
                self._goal = " ".join(text.split())
            elif kind.name == "GAME_BOARD":
                self._board = text
            elif kind.name != "PLAYER_ACTION":
                said.append(text)
        return self.observe_message("\n".join([*said, ending] if ending else said))

    def observe_message(self, message: str) -> Observation:
        text = "\n".join(part for part in (message, self._board) if part) or "Make the first move."
        return Observation(text, self._goal, legal_words(self.game) if self._tell_legal else ())
