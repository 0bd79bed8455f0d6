"""Sokoban rooms made here, of the sizes that RAGEN and verl-agent report: ``env=sokoban``."""

import re
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.sokoban.games import MOVES, distances, make, plan_of, read, same
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import InvalidAction, Observation, TaskRef


class SokobanEnv(TextEnv):
    """One room at a time; the score is the number of boxes on targets."""

    ends = ""
    kept = ("_room",)

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._room = read(accepted_file(task).read_text())
        self._distances = distances(self._room) if self._expert else {}
        return self.observe_message("")

    def step_game(self, command: str) -> RawStep:
        if command not in MOVES:
            raise InvalidAction(f"There is no action {command!r}.")
        if (room := self._room.moved(command)) is None:
            raise InvalidAction(f"The way {command} is blocked.")
        self._room = room
        return RawStep(self.observe_message(""), room.placed, won=room.boxes == room.targets)

    def observe_message(self, message: str) -> Observation:
        board = "\n".join(" ".join(line) for line in str(self._room).split("\n"))
        legal = tuple(move for move in MOVES if self._room.moved(move)) if self._legal else ()
        return Observation(f"{message}\n{board}".lstrip(), legal=legal, expert=plan_of(self._room, self._distances))


SIDES, BOXES = (6, 7, 8), (1, 2)
_GOAL = (
    "Push every box (X) onto a target (O). P is you, # a wall, _ floor, * a box on a target, S you on a target. "
    "You cannot pull a box, nor push two."
)


class Sokoban(Environment):
    """Tasks: ``sSIDE-bBOXES``, a square room and its number of boxes."""

    name = "sokoban"
    turns = 30
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You are solving a Sokoban puzzle.", "Answer with one action: up, down, left or right.")
    examples = tuple(f"s{side}-b{boxes}" for side in SIDES for boxes in BOXES)
    lists_actions = True

    def parse_task(self, task: str) -> dict[str, Any]:
        if task not in self.examples:
            raise self.unknown(task)
        side, boxes = map(int, re.findall(r"\d", task))
        return {"side": side, "boxes": boxes}

    def scores_only_at_end(self, params: Params) -> bool:
        return params["boxes"] == 1

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        room, plan = make(params["side"], params["boxes"], seed)
        (folder / "room.txt").write_text(str(room))
        return GameRecord("room.txt", goal=_GOAL, expert_plan=plan, fingerprint=same(room), max_score=params["boxes"])

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return SokobanEnv(legal=legal, expert=expert)
