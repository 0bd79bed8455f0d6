"""Credit by the entropy of the policy at a turn: AEM, AEPO and EMPG."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import bounds, compared, means, without_rounding
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import WHOLE_STEP, Method, Names, number, word

EPSILON = 1e-8  # added to the range of the entropies (EMPG)


@dataclass(kw_only=True)
class Aem(Method):
    """``A_t *= exp(-sharpness * H~_t) / mean of that``.

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


@dataclass(kw_only=True)
class Aepo(Method):
    """``A_t *= 1 + weight * z(H_t)``, H the turn's mean token entropy.

    ``z = (H - mean) / (std + 1e-6)``. Mean and deviation are over the turns of the batch. The
    factor is 1 if all are equal.
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
