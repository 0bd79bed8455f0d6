"""Make the game of a variation: its gold path, replayed to the end several times."""

import functools
import hashlib
import json
from pathlib import Path

from turngrid.envs.environment import GameRecord, Rejected
from turngrid.envs.jvm.machine import Jvm
from turngrid.envs.scienceworld.simulator import Simulator

_REPLAYS = 2  # game_record adds one
Replay = list[tuple[str, int, bool]]


def made(task: str, variation: int, simplifications: str, turns: int, folder: Path) -> GameRecord:
    """Write a variation's game.

    Raises:
        Rejected: the gold path does not win within ``turns``, or not in every replay.
    """
    simulator = Simulator()
    _warm_up(simulator.machine, task)
    goal = simulator.load(task, variation, simplifications, gold=True)
    gold = simulator.gold()
    first, *others = (_replay(simulator, task, variation, simplifications, gold) for _ in range(_REPLAYS))
    if not first or first[-1][1] != 100:
        raise Rejected(f"the gold path ends with a score of {first[-1][1] if first else 0}")
    if any(other != first for other in others):
        raise Rejected("the gold path takes another course when it is played again")
    if len(first) > turns:
        raise Rejected(f"a gold path of more than {turns} actions")
    plan = tuple(gold[: len(first)])
    game = {"task": task, "variation": variation, "simplifications": simplifications}
    file = folder / "game.json"
    file.write_text(json.dumps({**game, "gold": plan}))
    fingerprint = hashlib.sha256(json.dumps(game).encode()).hexdigest()
    return GameRecord(file.name, goal=goal, expert_plan=plan, fingerprint=fingerprint, max_score=100)


@functools.cache
def _warm_up(machine: Jvm, task: str) -> None:
    """Make one gold path of a task, since a JVM's first may differ from all others."""
    Simulator(machine).load(task, 0, "", gold=True)


def _replay(simulator: Simulator, task: str, variation: int, simplifications: str, gold: list[str]) -> Replay:
    """Play the gold path until the task is over, after a fresh load."""
    simulator.load(task, variation, simplifications)
    steps: Replay = []
    for command in gold:
        steps.append(simulator.step(command))
        if steps[-1][1] == 100 or steps[-1][1] < 0 or steps[-1][2]:
            break
    return steps
