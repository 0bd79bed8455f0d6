"""A level of BabyAI that was started from a seed."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import json
import sys
from typing import Any

import gymnasium
import minigrid  # noqa: F401 - registers the levels

WORDS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")  # in the order of minigrid's actions
FORWARD, PICK_UP, TOGGLE = 2, 3, 5


class Game:
    """A running level, without minigrid's limit of steps.

    Attributes:
        view: what the agent sees, 7 x 7 triples of kind, colour and state; the agent is at [3][6]
            and looks to [3][0].
        names: the things of a colour and kind, in the order in which they were first seen.
    """

    def __init__(self, level: str, seed: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # minigrid prints which samples it rejects
            self.env, seen = _opened(level, seed)
        self.env.max_steps = sys.maxsize
        self.view: list[Any] = seen["image"].tolist()
        self.names: dict[str, list[Any]] = {}
        self.over = self.won = False

    @property
    def ahead(self) -> Any:
        """The object right in front of the agent, or None."""
        return self.env.grid.get(*self.env.front_pos)

    @property
    def start(self) -> str:
        """A hash of the mission, the whole grid, and the agent's position and direction."""
        here = [int(number) for number in (*self.env.agent_pos, self.env.agent_dir)]
        facts = [self.env.mission, self.env.grid.encode().tolist(), here]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def play(self, move: int) -> None:
        seen, reward, self.over, _, _ = self.env.step(move)
        self.view, self.won = seen["image"].tolist(), bool(self.over and reward > 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        """Copy all but what no action changes."""
        walls = (cell for cell in self.env.grid.grid if cell is not None and cell.type == "wall")
        fixed = (self.env.action_space, self.env.observation_space, self.env.np_random, self.env.spec, *walls)
        memo.update((id(part), part) for part in fixed)
        memo[id(self)] = twin = object.__new__(Game)
        vars(twin).update((name, copy.deepcopy(value, memo)) for name, value in vars(self).items())
        return twin


def _opened(level: str, seed: int) -> tuple[Any, Any]:
    [name] = [name for name in gymnasium.registry if name.rpartition("-")[0] == f"BabyAI-{level}"]
    env = gymnasium.make(name, disable_env_checker=True).unwrapped
    return env, env.reset(seed=seed)[0]
