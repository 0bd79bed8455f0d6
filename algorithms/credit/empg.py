from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.credit.aem import scaled
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import WHOLE_STEP, Method, number

EPSILON = 1e-8  # added to the range of the entropies (EMPG)


@dataclass(kw_only=True)
class Empg(Method):
    """``A_t exp(-k H~_t) / mean exp(-k H~) + bonus exp(-k' H~_{t+1})``.

    The last turn lacks the second term. ``H~`` is a turn's mean entropy, scaled over the batch.
    ``centred`` subtracts the mean over turns.
    """

    sharpness: float = number(0)
    sharpness_next: float = number(0)
    bonus: float = number()
    centred: bool

    needs = frozenset({"entropy"})
    grains = frozenset({"turn", "episode"})
    requires = frozenset({WHOLE_STEP})

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.entropy is not None
        at = turns.flat()
        entropy = torch.zeros_like(turns.entropy)
        entropy[at] = scaled(turns.entropy[at], torch.zeros_like(at[0]), EPSILON)
        weight = torch.exp(-self.sharpness * entropy)
        following = turns.following(torch.exp(-self.sharpness_next * entropy))
        result = advantages * weight / weight[at].mean() + self.bonus * following
        return result - result[at].mean() if self.centred else result
