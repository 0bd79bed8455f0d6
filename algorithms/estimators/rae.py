import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import SYNCHRONOUS, WHOLE_STEP, Method, excludes, number, without, word

STEP, GAME = "step", "game"


@dataclass(kw_only=True)
class Rae(Method):
    """Role-conditioned advantage estimation (SPIRAL): ``A_t = gamma^(turns left) (R - b)``.

    b is a moving average of R for each task and seat, 0 at first: ``b <- decay b + (1 - decay) R``.
    It is part of every checkpoint. With ``update: step`` all matches of a step use b as it stood at
    the step's start; then it is updated match by match, in the order of their names. With ``game``
    each match reads b, then updates it.
    """

    decay: float = number(0, 1)
    gamma: float = number(0, 1)
    update: str = word(STEP, GAME)
    baselines: dict[str, float] = field(default_factory=dict, init=False)

    grain = "turn"
    requires = frozenset({WHOLE_STEP, SYNCHRONOUS})
    conflicts = (
        excludes("filter", "dynamic_sampling", reason="groups that it drops would be missing in the moving average"),
        without("roles", "its average is that of a seat", "algo=dr_mas"),
    )

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        keys, old = roles_of(turns), dict(self.baselines)
        scores, advantages = turns.score.tolist(), torch.zeros(turns.mask.shape, dtype=torch.float64)
        left = (turns.acts.sum(dim=1, keepdim=True) - turns.acts.cumsum(dim=1)).double()
        for episode in in_order(turns):
            key, score = keys[episode], scores[episode]
            read = old if self.update == STEP else self.baselines
            advantages[episode] = self.gamma ** left[episode] * (score - read.get(key, 0.0))
            self.baselines[key] = self.decay * self.baselines.get(key, 0.0) + (1 - self.decay) * score
        advantages *= turns.mask
        return Estimate(advantages, advantages)

    def state(self) -> dict[str, Any]:
        return {"baselines": dict(self.baselines)}

    def load(self, state: Mapping[str, Any]) -> None:
        self.baselines = dict(state["baselines"])


def roles_of(turns: Turns) -> list[str]:
    """Return each episode's task, without its seed, and seat."""
    seats = turns.role[:, 0].tolist() if turns.role is not None else [0] * len(turns.mask)
    tasks = turns.tasks or ("",) * len(seats)
    return [f"{task_of(task)}#{seat}" for task, seat in zip(tasks, seats, strict=True)]


def task_of(game: str) -> str:
    """Return ``ENV/TASK`` of a game in JSON, and other text unchanged."""
    if not game.startswith("{"):
        return game
    fields = json.loads(game)
    return f"{fields['env']}/{fields['task']}"


def in_order(turns: Turns) -> list[int]:
    """Return the episodes in the order of their names, ``<prompt>_<sample>``."""

    def name_of(episode: int) -> tuple[str, int]:
        prompt, _, sample = turns.episodes[episode].rpartition("_")
        return prompt, int(sample)

    return sorted(range(len(turns.mask)), key=name_of)
