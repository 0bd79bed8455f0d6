from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import bounds, means, without_rounding
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import WHOLE_STEP, Method, Names, number, word


@dataclass(kw_only=True)
class Aem(Method):
    """Turns of low entropy count more: ``A_t *= exp(-sharpness * H~_t) / mean of that``.

    ``H~ = (H - min) / (max - min)`` of the turn's mean token entropy. The mean, the minimum and the
    maximum are over the turns of a pool (``scope``). The factor is 1 if all are equal.
    """

    sharpness: float = number(0)
    scope: str = word("group", "batch", "episode")

    needs = frozenset({"entropy"})
    grains = frozenset({"token", "turn", "episode"})

    @property
    def requires(self) -> Names:  # type: ignore[override]
        return frozenset({WHOLE_STEP} if self.scope == "batch" else ())

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.entropy is not None
        episode, turn = turns.flat()
        pool = {"group": turns.group[episode], "batch": torch.zeros_like(episode), "episode": episode}[self.scope]
        weight = torch.exp(-self.sharpness * scaled(turns.entropy[episode, turn], pool))
        result = advantages.clone()
        result[episode, turn] *= weight / means(weight, pool)[pool]
        return result


def scaled(values: Tensor, pool: Tensor, epsilon: float = 0.0) -> Tensor:
    """Scale (n,) values from 0 (the least of a pool) to 1 (the greatest); 0 if all are equal."""
    low, high = (bound[pool] for bound in bounds(values, pool))
    width = without_rounding(high - low, pool, values.abs())
    return torch.where(width > 0, (values - low) / (width + epsilon).where(width > 0, 1.0), 0.0)
