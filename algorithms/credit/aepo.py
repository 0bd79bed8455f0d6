from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import WHOLE_STEP, Method, number


@dataclass(kw_only=True)
class Aepo(Method):
    """Turns of high entropy count more: ``A_t *= 1 + weight * z(H_t)``.

    H is the turn's mean token entropy, ``z = (H - mean) / (std + 1e-6)``. Mean and deviation are
    over the turns of the batch. The factor is 1 if all are equal.
    """

    weight: float = number()

    needs = frozenset({"entropy"})
    grains = frozenset({"token", "turn", "episode"})
    requires = frozenset({WHOLE_STEP})

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.entropy is not None
        episode, turn = turns.flat()
        risen = compared(turns.entropy[episode, turn], torch.zeros_like(episode), std=True)
        result = advantages.clone()
        result[episode, turn] *= 1 + self.weight * risen
        return result
