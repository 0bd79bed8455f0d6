"""Make a seed's game of BabyAI, and play it in words."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from turngrid.envs.babyai.bot import LONGEST, Guide
from turngrid.envs.babyai.level import VERBS, WORDS, Game, Moves, commands, told
from turngrid.envs.environment import GameRecord, Rejected
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import EnvError, InvalidAction, Observation, TaskRef


class BabyAIEnv(TextEnv):
    """One level at a time. A dense score is the number of moves by which the bot's plan is shorter
    than at the start, at least 0.
    """

    ends = " ."
    kept = ("_game", "_guide", "_rest")

    def __init__(self, *, macro: bool = False, legal: bool = False, expert: bool = False) -> None:
        super().__init__(legal=legal, expert=expert)
        self._macro = macro

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        file = json.loads(accepted_file(task).read_text())
        self._game = Game(file["level"], file["seed"])
        if self._game.start != file["start"]:
            raise EnvError(f"{task.key}: this minigrid ({version('minigrid')}) makes another game of its seed")
        self._dense, self._most = task.params["dense"], task.max_score
        self._guide = Guide(self._game) if self._dense or self._expert else None
        self._longest = LONGEST if self._expert else int(self._most)  # a longer plan scores 0 all the same
        self._rest: Moves | None = None
        return self.observe_message("")

    def step_game(self, command: str) -> RawStep:
        game, moves = self._game, commands(self._game, self._macro).get(command)
        if moves is None:
            known = command.startswith(VERBS if self._macro else WORDS)
            raise InvalidAction(f"You cannot {command} now." if known else f"There is no action {command!r}.")
        for move in moves:
            if not game.over:
                self._play(move)
        return RawStep(self.observe_message(""), self._score(), won=game.won, lost=game.over and not game.won)

    def _play(self, move: int) -> None:
        self._game.play(move)
        if self._guide:
            self._guide.watch(move)
        self._rest = self._rest[1:] if self._rest and self._rest[0] == move else None

    def _score(self) -> float | None:
        if not self._dense or self._game.won:
            return self._most if self._game.won else None
        return max(0.0, self._most - (len(self._plan()) or self._most))

    def _plan(self) -> Moves:
        """Return the rest of the bot's plan; () if it has none."""
        if self._rest is None:
            self._rest = self._guide.rest(self._longest) if self._guide else ()
        return self._rest

    def observe_message(self, message: str) -> Observation:
        text = f"{message} {told(self._game)}".lstrip()
        return Observation(text, legal=self._commands() if self._legal else (), expert=self._expert_plan())

    def _commands(self) -> tuple[str, ...]:
        return tuple(commands(self._game, self._macro))

    def _expert_plan(self) -> tuple[str, ...]:
        if not self._expert or self._guide is None:
            return ()
        return self._guide.commands() if self._macro else tuple(WORDS[move] for move in self._plan())


def made(params: Mapping[str, Any], seed: int, folder: Path) -> GameRecord:
    """Write a seed's game.

    Raises:
        Rejected: the bot does not win it within the turns of an episode.
    """
    game, turns = Game(params["level"], seed), params["turns"]
    guide = Guide(game)
    moves = guide.rest()
    plan = guide.commands() if params["actions"] == "macro" else tuple(WORDS[move] for move in moves)
    if not moves or not plan:
        raise Rejected("the bot does not win")
    if len(plan) > turns:
        raise Rejected(f"a plan of more than {turns} actions")
    file = folder / "game.json"
    file.write_text(json.dumps({"level": params["level"], "seed": seed, "start": game.start}))
    score = len(moves) if params["dense"] else 1.0
    return GameRecord(file.name, goal=game.env.mission, expert_plan=plan, fingerprint=game.start, max_score=score)
