"""textarena's two-player games without downloads: ``env=two_player env.id=TicTacToe-v0``."""

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from turngrid.envs.environment import GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.text_env import RawStep, accepted_json, sanitise
from turngrid.envs.textarena.environment import ArenaEnv, ArenaGames
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
Actions = Callable[[Any, int], list[str]]  # of a player, in a game's state
LINES = ("012", "345", "678", "036", "147", "258", "048", "246")


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
                self.game.step(f"[{random.choice(self._of(LEGAL))}]")
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
        return Observation(self._shown(message), self._goals[player], self._of(LEGAL), self._of(BEST), seat=str(player))

    def _of(self, table: Mapping[str, Actions]) -> tuple[str, ...]:
        """Return the actions of the player to move; () if the game is over or not in the table."""
        state, listed = self.game.state, table.get(self._name)
        return tuple(listed(state.game_state, state.current_player_id)) if listed and not self.over else ()


def _cells(state: Any, player: int) -> list[str]:
    return [str(cell) for cell in range(9) if not state["board"][cell // 3][cell % 3]]


def _columns(state: Any, player: int) -> list[str]:
    return [f"col {column}" for column, top in enumerate(state["board"][0]) if top == "."]


def _removals(state: Any, player: int) -> list[str]:
    return [f"{pile} {count}" for pile, left in enumerate(state["piles"]) for count in range(1, left + 1)]


def _trades(state: Any, player: int) -> list[str]:
    """Return an answer to the offer, if there is one, and the trades of one piece for another."""
    own, offer = state["player_resources"][player], state["current_offer"]
    answers = ["deny"]
    if offer and all(own.get(name, 0) >= count for name, count in offer["requested_resources"].items()):
        answers = ["accept", "deny"]
    offers = [f"offer: 1 {a.lower()} -> 1 {b.lower()}" for a in own for b in own if a != b and own[a]]
    return [*answers, *offers]


LEGAL: dict[str, Actions] = {  # of a negotiation, only simple ones
    "TicTacToe": _cells,
    "KuhnPoker": lambda state, player: list(state["current_legal_action_tree"]),
    "ConnectFour": _columns,
    "Nim": _removals,
    "SimpleNegotiation": _trades,
    "PigDice": lambda state, player: ["roll", "hold"],
}


@cache
def value(board: str, mark: str) -> int:
    """Return the result of exact play, 1, 0 or -1, for the player with ``mark``, who is to move.

    Args:
        board: nine characters, X, O or a space.
    """
    other = "O" if mark == "X" else "X"
    if any(all(board[int(cell)] == other for cell in line) for line in LINES):
        return -1
    return max((-value(board[:cell] + mark + board[cell + 1 :], other) for cell in _empty(board)), default=0)


def _empty(board: str) -> list[int]:
    return [cell for cell, mark in enumerate(board) if mark == " "]


def _minimax(state: Any, player: int) -> list[str]:
    board, mark = "".join(cell or " " for row in state["board"] for cell in row), "OX"[player]
    other, best = "XO"[player], value(board, mark)
    after = {cell: board[:cell] + mark + board[cell + 1 :] for cell in _empty(board)}
    return [str(cell) for cell, reached in after.items() if -value(reached, other) == best]


def _balance(state: Any, player: int) -> list[str]:
    """Return the moves that leave piles whose binary sum without carry is 0, if there are any."""
    total, moves = 0, _removals(state, player)
    for pile in state["piles"]:
        total ^= pile
    kept = {f"{pile} {left - (left ^ total)}" for pile, left in enumerate(state["piles"])}
    return [move for move in moves if move in kept] or moves


BEST: dict[str, Actions] = {"TicTacToe": _minimax, "Nim": _balance}


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
