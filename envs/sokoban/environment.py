"""Sokoban rooms made here, of the sizes that RAGEN and verl-agent report: ``env=sokoban``."""

import re
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

SIDES, BOXES = (6, 7, 8), (1, 2)
_GOAL = (
    "Push every box (X) onto a target (O). P is you, # a wall, _ floor, * a box on a target, S you on a target. "
    "You cannot pull a box, nor push two."
)


class Sokoban(Environment):
    """Tasks: ``sSIDE-bBOXES``, a square room and its number of boxes."""

    name = "sokoban"
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You are solving a Sokoban puzzle.", "Answer with one action: up, down, left or right.")
    examples = tuple(f"s{side}-b{boxes}" for side in SIDES for boxes in BOXES)
    lists_actions = True

    def parse_task(self, task: str) -> dict[str, Any]:
        if task not in self.examples:
            raise TaskError(f"unknown task {task!r} of sokoban; use {nearest(str(task), self.examples)}")
        side, boxes = map(int, re.findall(r"\d", task))
        return {"side": side, "boxes": boxes}

    def max_turns(self, task: str) -> int:
        return 30

    def scores_only_at_end(self, params: Params) -> bool:
        return params["boxes"] == 1

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.sokoban.games import make, same

        room, plan = make(params["side"], params["boxes"], seed)
        (folder / "room.txt").write_text(str(room))
        return GameRecord("room.txt", goal=_GOAL, expert_plan=plan, fingerprint=same(room), max_score=params["boxes"])

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from turngrid.envs.sokoban.env import SokobanEnv

        return SokobanEnv(legal=legal, expert=expert)
