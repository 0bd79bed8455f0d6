"""Single-player games of textarena without downloads: ``env=textarena env.id=Sokoban-v0``.

textarena loads chat clients and word lists, so only processes that make or run games import it.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected, facts_hash
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.textarena.games import PLANS, legal_words
from turngrid.envs.types import EnvError, Observation, TaskError, TaskRef
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


class ArenaEnv(TextEnv):
    """One game at a time. A player's goal and board are those that it was shown last."""

    game: Any

    def _begin(self) -> Observation:
        self._goals: dict[int, str] = {}
        self._boards: dict[int, str] = {}
        return self._read()

    def _read(self, ending: str = "") -> Observation:
        """Return what is new for the player to move, and the board."""
        state, messages = self.game.state, []
        for sender, words, kind in state.get_current_player_observation():
            text = "\n".join(line.strip() for line in words.splitlines() if line.strip())
            if kind.name == "PROMPT":
                self._goals[state.current_player_id] = " ".join(text.split())
            elif kind.name == "GAME_BOARD":
                self._boards[state.current_player_id] = text
            elif kind.name != "PLAYER_ACTION" or self._heard(sender):
                messages.append(text)
        return self.observe_message("\n".join([*messages, ending] if ending else messages))

    def _heard(self, sender: int) -> bool:
        """Return whether the observation includes messages written by ``sender``."""
        return False

    def _shown(self, message: str) -> str:
        board = self._boards.get(self.game.state.current_player_id, "")
        return "\n".join(part for part in (message, board) if part) or "Make the first move."


class TextArenaEnv(ArenaEnv):
    """A game without textarena's limits of turns and of invalid moves."""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        game = accepted_json(task)
        opening = self.open(game["id"], game["seed"])
        if opening.text != game["opening"]:
            raise EnvError(f"{task.key}: this textarena ({version('textarena')}) makes another game of its seed")
        return opening

    def open(self, game_id: str, seed: int) -> Observation:
        """Start a game by its seed, which determines its draws."""
        import textarena

        self.game = textarena.make(f"{game_id}-raw")
        self.game.reset(num_players=1, seed=seed)
        self.game.max_turns = self.game.state.max_turns = self.game.state.error_allowance = sys.maxsize
        return self._begin()

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).strip("[]").lower()

    def step_game(self, command: str) -> RawStep:
        over, _ = self.game.step(f"[{command}]")
        state = self.game.state
        score = float(state.rewards[0] if over else self.game._get_percentage_completion())
        won = over and score >= 1.0
        seen = self._read(state.game_info[0]["reason"] if over else "")
        return RawStep(seen, score, won=won, lost=over and not won, valid=state.error_count == 0)

    def observe_message(self, message: str) -> Observation:
        return Observation(self._shown(message), self._goals[0], legal_words(self.game) if self._legal else ())


@dataclass(frozen=True)
class TextArenaSettings:
    id: str


class ArenaGames(Environment):
    """Base of both environments; the task is the game's id.

    Attributes:
        known: games, with the turns of an episode.
    """

    package = "textarena"
    modules = ("textarena",)
    install = 'pip install "turngrid[textarena]"'
    known: ClassVar[Mapping[str, int]]

    def check(self, task: str) -> None:
        """Raise TaskError for a game that is not ``env.id`` or not known; check modules."""
        if task != self.settings.id:
            raise TaskError(f"env.task={task} follows env.id={self.settings.id}; set env.id={task} instead")
        if task not in self.known:
            near = nearest(task, self.known)
            raise TaskError(f"env.id={task} is no game of env={self.name}; use {near} ({', '.join(self.known)})")
        self.check_modules()


class TextArena(ArenaGames):
    """The score is textarena's degree of completion, 1 for a win."""

    name = "textarena"
    Env = TextArenaEnv
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You are playing a game.", "Answer with one action and nothing else.")
    Settings = TextArenaSettings
    lists_actions = True
    known = KNOWN

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check(task)
        return {"id": task, "turns": KNOWN[task]}

    def max_turns(self, task: str) -> int:
        return self.parse_task(task)["turns"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        env = TextArenaEnv()
        opening = env.open(params["id"], seed)
        plan = PLANS[params["id"].split("-")[0]](env.game)
        if plan is None or len(plan) > params["turns"]:
            raise Rejected(f"cannot be won within {params['turns']} turns")
        game = {"id": params["id"], "seed": seed, "opening": opening.text}
        same = facts_hash([params["id"], opening.text, plan])  # the number to guess is in the plan only
        return GameRecord.written(folder, game, goal=opening.goal, expert_plan=tuple(plan), fingerprint=same)
