from dataclasses import dataclass, replace

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared, pools
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import GROUPS, LOSES_KL, OWN_TURNS, Method, number


@dataclass(kw_only=True)
class Gigpo(Method):
    """Compare turns that answered the same state: ``A_t += weight * A^S_t``.

    ``R_t = sum over k >= t of gamma^(k-t) r_k``. The turns of a group that answered equal states
    form a step group, repeats within an episode included. ``A^S = (R_t - mean) / (std + 1e-6)``
    there; 0 for a turn alone, or if all R are equal.

    With ``by_turns``, the mean and deviation of the *episode* term are over the group's turns, so
    that longer episodes weigh more. That term replaces the estimator's.
    """

    gamma: float = number(0, 1)
    weight: float = number()
    std: bool
    by_turns: bool
    costs_go_on: bool

    grains = frozenset({"episode"})  # an estimator over turns whitens, so its scale differs
    requires = frozenset({GROUPS, OWN_TURNS})
    conflicts = (replace(LOSES_KL, when=lambda credit, on: on and credit.by_turns),)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.acting()
        episode = at[0]
        result = advantages.clone()
        if self.by_turns:
            scores, sizes = (numbers[episode] for numbers in (turns.score, turns.score_size))
            own = torch.zeros_like(turns.score)
            own[episode] = compared(scores, turns.group[episode], self.std, size=sizes)
            result[:] = own.unsqueeze(1)
        returns, size = (numbers[at] for numbers in returns_to_go(turns, self.gamma, self.costs_go_on))
        step_group = pools(turns.group[episode], turns.state[at])
        result[at] += self.weight * compared(returns, step_group, self.std, size=size)
        return result


def returns_to_go(turns: Turns, gamma: float, costs_go_on: bool) -> tuple[Tensor, Tensor]:
    """Return each turn's discounted return, and the same sum of absolute rewards; (E, K) float64.

    Args:
        costs_go_on: extrapolate the costs (rewards below 0) of an episode that was cut off. Each
            turn gets as many later turns as the episode's first turn has. A missing turn costs the
            episode's mean. Otherwise late turns would have fewer costs ahead than early ones that
            answered the same state, so running out of turns would pay.
    """
    reward, step = turns.reward * turns.mask, turns.steps(gamma)
    returns, sizes = discounted(reward, step), discounted(reward.abs(), step)
    if costs_go_on:
        ahead = discounted(turns.acts.double(), step)
        cost = reward.clamp(max=0).sum(dim=1) / turns.acts.sum(dim=1).clamp(min=1) * turns.cut_off
        returns += cost.unsqueeze(1) * (ahead[:, :1] - ahead)
    return returns, sizes
