"""Make a seed's game of BabyAI."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turngrid.envs.babyai.bot import Guide
from turngrid.envs.babyai.level import WORDS, Game
from turngrid.envs.environment import GameRecord, Rejected


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
