from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GAMES_AGAIN, GROUPS, SYNCHRONOUS, Conflict, Method, number


@dataclass(kw_only=True)
class Solved(Method):
    """Leave out games that the policy solves, from the next epoch on.

    It keeps a step's episodes: ``verl_plugin/training/task_loader.py`` draws no solved game again.
    """

    share: float = number(0, 1)

    when = "before"
    leaves_out = True
    requires = frozenset({GROUPS, SYNCHRONOUS, GAMES_AGAIN})
    conflicts = (
        Conflict(
            ("curriculum.name",),
            lambda _, name: name == "threshold",
            "a task's success would be that of its unsolved games",
            "curriculum=phases",
        ),
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return torch.ones(len(turns.group), dtype=torch.bool)
