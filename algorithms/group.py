"""Estimators whose baseline is the other samples of the same prompt: GRPO, RLOO and Lite PPO.

All sum an episode's rewards to one score and give every action token of the row the same advantage.
A live row without another one in its group has no baseline: it counts as dead, with advantage 0
(``turngrid.verl_plugin.training.turn_rows``).

Scores and baselines are float64. In float32, equal scores of a group may differ from their mean by
a rounding error, which GRPO would divide by a deviation near 0.
"""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from turngrid.algorithms.pools import live_rows, sums, without_rounding


@torch.no_grad()
def grpo(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Hashable],
    norm_adv_by_std_in_grpo: bool = True,
    epsilon: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    """Return ``(R_i - mean(R)) / (std(R) + epsilon)`` (GRPO, arXiv 2402.03300, section 4.1.2).

    Args:
        token_level_rewards: shape (rows, tokens); an episode's score R_i is its sum.
        response_mask: shape (rows, tokens), 1 on action tokens.
        index: the group (prompt) of each row.
        norm_adv_by_std_in_grpo: divide by the unbiased deviation; False: Dr. GRPO (2503.20783).
        epsilon: added to the standard deviation; equal scores give exactly 0.

    Returns:
        ``(advantages, returns)``, one tensor twice: the row's advantage on action tokens, else 0.
    """
    centred, groups, sizes = _centred(token_level_rewards, response_mask, index)
    if norm_adv_by_std_in_grpo:
        variance = sums(centred.square(), groups)[groups] / (sizes - 1).clamp(min=1)
        centred = centred / (variance.sqrt() + epsilon)
    return _spread(centred.to(token_level_rewards.dtype), response_mask)


@torch.no_grad()
def rloo(token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Hashable]) -> tuple[Tensor, Tensor]:
    """Return ``R_i - mean of the other R_j`` of the group (RLOO, arXiv 2402.14740, section 3.2).

    Arguments and result are those of ``grpo``.
    """
    centred, _, sizes = _centred(token_level_rewards, response_mask, index)
    advantages = centred * sizes / (sizes - 1).clamp(min=1)
    return _spread(advantages.to(token_level_rewards.dtype), response_mask)


@torch.no_grad()
def lite_ppo(
    token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Hashable], epsilon: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Return ``(R_i - mean(R)) / (std over the batch + epsilon)`` (Lite PPO, arXiv 2508.08221).

    The deviation is the unbiased one of the raw scores of all live rows with a baseline. Arguments
    and result are those of ``grpo``.
    """
    centred, _, sizes = _centred(token_level_rewards, response_mask, index)
    scores = token_level_rewards.double().sum(dim=-1)[live_rows(response_mask) & (sizes > 1)]
    deviation = scores.std() if len(scores) else scores.new_zeros(())
    return _spread((centred / (deviation + epsilon)).to(token_level_rewards.dtype), response_mask)


def group_ids(index: Sequence[Hashable]) -> Tensor:
    """Number the groups in order of appearance; shape (rows,), int64."""
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in index], dtype=torch.int64)


def _centred(
    token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Hashable]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return each row's score less its group's mean, its group, and that group's live rows (>= 1).

    The first is 0 for dead rows, in float64, without rounding differences.
    """
    rewards, groups, live = token_level_rewards.double(), group_ids(index), live_rows(response_mask)
    scores, sizes = rewards.sum(dim=-1) * live, sums(live.double(), groups)[groups].clamp(min=1)
    centred = (scores - sums(scores, groups)[groups] / sizes) * live
    return without_rounding(centred, groups, rewards.abs().sum(dim=-1) * live), groups, sizes


def _spread(advantages: Tensor, response_mask: Tensor) -> tuple[Tensor, Tensor]:
    spread = advantages.unsqueeze(-1) * response_mask
    return spread, spread
