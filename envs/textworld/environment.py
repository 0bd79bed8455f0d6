"""TextWorld custom games ``w{rooms}-o{objects}-q{quest length}``: one quest, one point, at the end only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from envs.environment import GameRecord, Params, Rejected
from envs.textworld.games import TextWorldGames
from envs.types import TaskError
from envs.utils.names import nearest

_TASK = re.compile(r"w([1-9]\d?)-o([1-9]\d?)-q([1-9]\d?)")
_PAPER = ("w2-o3-q4", "w4-o3-q4", "w2-o6-q4", "w4-o6-q8", "w8-o12-q16")


class TextWorldCustom(TextWorldGames):
    """Any size from w1-o1-q1; sizes that no seed can fill are refused by the catalogue after many rejections."""

    name = "textworld"
    rewards = ("sparse", "dense")
    examples = _PAPER

    def parse_task(self, task: str) -> dict[str, Any]:
        match = _TASK.fullmatch(str(task))
        if not match:
            raise TaskError(f"unknown task {task!r} of textworld; did you mean {_nearest(str(task))}?")
        rooms, objects, quest = map(int, match.groups())
        return {"rooms": rooms, "objects": objects, "quest": quest}

    def max_turns(self, task: str) -> int:
        """The study's limits: 12 for quests of up to 4 steps, 24 elsewhere; half as many again as a longer quest."""
        quest = self.parse_task(task)["quest"]
        return 12 if quest <= 4 else max(24, quest + quest // 2)

    def optimal_turns(self, params: Params) -> int:
        return params["quest"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from envs.textworld import making

        opts = making.options(seed)
        opts.kb = making.knowledge_base()
        opts.nb_rooms, opts.nb_objects = params["rooms"], params["objects"]
        opts.quest_length = params["quest"]
        opts.chaining.max_breadth = 1  # one quest: the command's default breadth gives some games two
        game = _generate(opts)
        steps = len(game.metadata.get("walkthrough") or ())
        if steps != params["quest"]:  # before the compilers run: they take most of the time
            raise Rejected(f"the expert plan has {steps} steps")
        return making.finish(game, folder)

    def scores_only_at_end(self, params: Params) -> bool:
        return True


def _generate(opts: Any) -> Any:
    from textworld.generator import QuestGenerationError, make_game

    try:
        return make_game(opts)
    except QuestGenerationError as error:
        raise Rejected("no quest of this length") from error


def _nearest(task: str) -> str:
    """The form with the user's own numbers where there are three, else the nearest size of the study."""
    numbers = [int(n) for n in re.findall(r"\d+", task)]
    if len(numbers) == 3:
        return "w{}-o{}-q{}".format(*(min(max(n, 1), 99) for n in numbers))
    return nearest(task, _PAPER)
