"""textarena's two-player games without downloads: ``env=two_player env.id=TicTacToe-v0``."""

import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from turngrid.envs.environment import GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.text_env import RawStep, accepted_json, sanitise
from turngrid.envs.textarena.environment import ArenaEnv, ArenaGames
from turngrid.envs.textarena.games import BEST, best_actions, legal_actions
from turngrid.envs.types import EnvError, Observation, TaskRef

BOARDS = ("TicTacToe", "Nim")  # show their last board
FORFEIT = "forfeit"  # in ``StepResult.info``: an invalid answer ended the game
DICE = 20  # throws by which two games of PigDice differ
NOTHING = "none"  # stands for an answer without an action, which is an invalid one
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


class MatchEnv(ArenaEnv):
    """One game at a time. An observation names the seat to move and its legal and best actions,
    from which scripted opponents choose.

    textarena's games draw from Python's global generator, also in their later rounds. Each game
    keeps its own state of that generator, so that other games in its process do not change it, and
    a replay deals the same cards.
    """

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        game = accepted_json(task)
        opening = self.open(game["id"], game["seed"], game["plies"], game["errors"])
        if self.facts() != game["facts"]:
            raise EnvError(f"{task.key}: this textarena ({version('textarena')}) makes another game of its seed")
        return opening

    def open(self, game_id: str, seed: int, plies: int = 0, errors: int = 0) -> Observation:
        """Start a game by its seed, which determines its draws and its random first ``plies``."""
        import textarena

        self._name = game_id.partition("-")[0]
        self._generator = random.Random(seed).getstate()
        with self._chance():
            self.game = textarena.make(f"{game_id}-raw")
            self.game.reset(num_players=2, seed=seed)
            self.game.state.error_allowance = errors
            for _ in range(plies):
                self.game.step(f"[{random.choice(legal_actions(self._name, self.game))}]")
        if plies:  # the board shows the moves
            for player, seen in self.game.state.observations.items():
                self.game.state.observations[player] = [
                    item for item in seen if item[2].name in ("PROMPT", "GAME_BOARD")
                ]
        return self._begin()

    def facts(self) -> str:
        """Return the game's state, whose turn it is, and what chance has in store, as text."""
        state, chance = self.game.state, random.Random()
        chance.setstate(self._generator)
        draws: list[Any] = []
        if self._name == "KuhnPoker":
            deck = list(self.game.deck)
            for _ in range(1, self.game.max_rounds):
                chance.shuffle(deck)
                draws.append(deck[:2])
        elif self._name == "PigDice":
            draws = [chance.randint(1, 6) for _ in range(DICE)]
        return json.dumps([state.game_state, state.current_player_id, draws], sort_keys=True)

    @property
    def over(self) -> bool:
        return bool(self.game.state.done)

    @contextmanager
    def _chance(self) -> Iterator[None]:
        """Draw from the game's own generator, and leave the process's as it was."""
        outer = random.getstate()
        random.setstate(self._generator)
        try:
            yield
        finally:
            self._generator = random.getstate()
            random.setstate(outer)

    def clean_action(self, action: str) -> str:
        command = sanitise(action).lower() or NOTHING
        return command if "[" in command else f"[{command}]"

    def step_game(self, command: str) -> RawStep:
        with self._chance():
            over, _ = self.game.step(command)
        state = self.game.state
        if not over:
            return RawStep(self._read(), 0.0, valid=state.error_count == 0)
        forfeit = any(state.game_info[player]["invalid_move"] for player in state.rewards)
        info: dict[str, Any] = {FORFEIT: True} if forfeit else {}
        scores = {str(player): float(score) for player, score in state.rewards.items()}
        return RawStep(self._end(), 0.0, terminated=True, valid=not forfeit, info=info, scores=scores)

    def _end(self) -> Observation:
        """Return the last observation, the same for both seats."""
        self._read()
        reason, board = self.game.state.game_info[0]["reason"], self._boards.get(self.game.state.current_player_id)
        return Observation(f"{reason}\n{board}" if board and self._name in BOARDS else reason)

    def _heard(self, sender: int) -> bool:
        return self._name == "SimpleNegotiation" and sender == 1 - self.game.state.current_player_id

    def observe_message(self, message: str) -> Observation:
        player = self.game.state.current_player_id
        legal = () if self.over else legal_actions(self._name, self.game)
        best = () if self.over else best_actions(self._name, self.game)
        return Observation(self._shown(message), self._goals[player], legal, best, seat=str(player))


@dataclass(frozen=True)
class TwoPlayerSettings:
    id: str
    errors: int = field(metadata={"range": (0, 100)})


class TwoPlayer(ArenaGames):
    """A seat scores 1 for a win, 0 for a draw and -1 for a loss."""

    name = "two_player"
    Env = MatchEnv
    rewards = ("zero_sum", "sparse")
    prompt = PromptStyle("You are playing a game against another player.", "Answer with one action and nothing else.")
    Settings = TwoPlayerSettings
    seats = ("0", "1")
    known = KNOWN

    @property
    def lists_actions(self) -> bool:  # type: ignore[override]
        return self.settings.id != "SimpleNegotiation-v0"

    @property
    def opponents(self) -> tuple[str, ...]:  # type: ignore[override]
        exact = self.settings.id.partition("-")[0] in BEST
        return ("random", "first", "exact") if exact else ("random", "first")

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check(task)
        return {"id": task, "errors": self.settings.errors}

    def max_turns(self, task: str) -> int:
        return KNOWN[self.parse_task(task)["id"]] * (1 + self.settings.errors)

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Deal, or draw the first moves; there is no expert plan."""
        plies = 0 if params["id"] in DEALT else random.Random(seed).randint(0, PLIES)
        env = MatchEnv()
        env.open(params["id"], seed, plies, params["errors"])
        if env.over:
            raise Rejected("its random moves end the game")
        game = {"id": params["id"], "seed": seed, "plies": plies, "errors": params["errors"], "facts": env.facts()}
        same = hashlib.sha256(f"{params['id']} {env.facts()}".encode()).hexdigest()
        return GameRecord.written(folder, game, fingerprint=same)
