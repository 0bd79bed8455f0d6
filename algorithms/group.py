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

from turngrid.algorithms.pools import EPSILON, centred, compared, live_rows


@torch.no_grad()
def grpo(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Hashable],
    norm_adv_by_std_in_grpo: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return ``(R_i - mean(R)) / (std(R) + 1e-6)`` (GRPO, arXiv 2402.03300, section 4.1.2).

    Args:
        token_level_rewards: shape (rows, tokens); an episode's score R_i is its sum.
        response_mask: shape (rows, tokens), 1 on action tokens.
        index: the group (prompt) of each row.
        norm_adv_by_std_in_grpo: divide by the unbiased deviation; False: Dr. GRPO (2503.20783).

    Returns:
        ``(advantages, returns)``, one tensor twice: the row's advantage on action tokens, else 0.
    """
    scores, groups, sizes = _of_live(token_level_rewards, response_mask, index)
    return _spread(compared(scores, groups, norm_adv_by_std_in_grpo, size=sizes), token_level_rewards, response_mask)


@torch.no_grad()
def rloo(token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Hashable]) -> tuple[Tensor, Tensor]:
    """Return ``R_i - mean of the other R_j`` of the group (RLOO, arXiv 2402.14740, section 3.2).

    Arguments and result are those of ``grpo``.
    """
    scores, groups, sizes = _of_live(token_level_rewards, response_mask, index)
    count = torch.bincount(groups)[groups]
    advantages = centred(scores, groups, sizes) * count / (count - 1).clamp(min=1)
    return _spread(advantages, token_level_rewards, response_mask)


@torch.no_grad()
def lite_ppo(token_level_rewards: Tensor, response_mask: Tensor, index: Sequence[Hashable]) -> tuple[Tensor, Tensor]:
    """Return ``(R_i - mean(R)) / (std over the batch + 1e-6)`` (Lite PPO, arXiv 2508.08221).

    The deviation is the unbiased one of the raw scores of all live rows with a baseline. Arguments
    and result are those of ``grpo``.
    """
    scores, groups, sizes = _of_live(token_level_rewards, response_mask, index)
    compared_ones = scores[torch.bincount(groups)[groups] > 1]
    deviation = compared_ones.std() if len(compared_ones) else scores.new_zeros(())
    return _spread(centred(scores, groups, sizes) / (deviation + EPSILON), token_level_rewards, response_mask)


def group_ids(index: Sequence[Hashable]) -> Tensor:
    """Number the groups in order of appearance; shape (rows,), int64."""
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in index], dtype=torch.int64)


def _of_live(rewards: Tensor, response_mask: Tensor, index: Sequence[Hashable]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the score, the group and the sum of absolute rewards of each live row; (rows,)."""
    live, exact = live_rows(response_mask), rewards.double()
    return exact.sum(dim=-1)[live], group_ids(index)[live], exact.abs().sum(dim=-1)[live]


def _spread(advantages: Tensor, rewards: Tensor, response_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Put the live rows' advantages on their action tokens."""
    by_row = rewards.new_zeros(len(rewards))
    by_row[live_rows(response_mask)] = advantages.to(rewards.dtype)
    spread = by_row.unsqueeze(-1) * response_mask
    return spread, spread
