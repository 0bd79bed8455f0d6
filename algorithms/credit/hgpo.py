from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.credit.gigpo import returns_to_go
from turngrid.algorithms.pools import EPSILON, compared, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import FIRST, GROUPS, LOSES_KL, OWN_TURNS, Method, excludes, number


@dataclass(kw_only=True)
class Hgpo(Method):
    """Compare turns by recent states: ``A_t = sum over k of w_k a^k_t``.

    It replaces the estimator's advantage; with ``base``, that is the item k = 0. For k from 1 to
    ``history + 1``, the turns of a group that answered the same k states in a row are compared by
    their discounted returns, repeats within an episode included: ``a^k = (R_t - mean) / (std +
    1e-6)``, with the biased deviation; 0 for one alone. ``w_k`` is in proportion to ``(k +
    1)^alpha`` over the k whose ``a^k`` is not 0. A turn without such a k gets 0.
    """

    gamma: float = number(0, 1)
    history: int = number(0)
    alpha: float = number(0)
    std: bool
    base: bool
    costs_go_on: bool

    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, OWN_TURNS})
    conflicts = (
        excludes("credit", "gigpo", "mt_grpo", "graft", reason="they count the same turns", use="credit=[hgpo]"),
        FIRST,
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.acting()
        total, weights = torch.zeros(len(at[0])).double(), torch.zeros(len(at[0])).double()
        for k, item in self._items(turns, advantages[at]):
            weight = (k + 1) ** self.alpha * (item != 0)
            total, weights = total + weight * item, weights + weight
        result = advantages.clone() if self.base else torch.zeros_like(advantages)
        result[at] = (total / (weights + EPSILON)).to(result.dtype)
        return result

    def _items(self, turns: Turns, base: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield each k with its ``a^k``, (turns,)."""
        if self.base:
            yield 0, base
        at = turns.acting()
        returns, size = (numbers[at] for numbers in returns_to_go(turns, self.gamma, self.costs_go_on))
        own = path = pools(turns.group[at[0]], turns.state[at])
        for k in range(1, self.history + 2):
            has, item = turns.acted_before[at] >= k - 1, torch.zeros_like(returns)
            item[has] = compared(returns[has], path[has], self.std, biased=True, size=size[has])
            yield k, item
            path = pools(path.roll(1), own)  # the key of the turn before, and this turn's state
