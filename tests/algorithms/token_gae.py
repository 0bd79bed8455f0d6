"""Generalised advantage estimation over the action tokens of multi-turn rows."""

from __future__ import annotations

import torch
from torch import Tensor

from turngrid.algorithms.pools import whiten


@torch.no_grad()
def token_gae(
    token_level_rewards: Tensor,
    values: Tensor,
    response_mask: Tensor,
    gamma: float = 1.0,
    lam: float = 1.0,
    whitened: bool = True,
) -> tuple[Tensor, Tensor]:
    """Token GAE that steps from action token to action token and does not see the observations
    between them.

    For consecutive *action* tokens k, k+1 (arXiv 1506.02438, eq. 16; over turns as in arXiv
    2510.01132): ``delta_k = r_k + gamma * V_{k+1} - V_k`` and
    ``A_k = delta_k + gamma * lam * A_{k+1}``. So a turn's last token bootstraps from the value at
    the next turn's first action token, one factor gamma * lam an action token and none for an
    observation token. After the last action token V and A are 0: an episode that was cut off is not
    bootstrapped. Returns are ``A + V``, taken before whitening.

    Args:
        token_level_rewards: shape (rows, tokens), each turn's reward on that turn's last action
            token.
        values: the critic's values, shape (rows, tokens); anything may stand on observation tokens.
        response_mask: shape (rows, tokens), 1 on action tokens.
        gamma: discount an action token.
        lam: GAE's lambda.
        whitened: whiten the advantages over the batch's action tokens.

    Returns:
        ``(advantages, returns)``, each of shape (rows, tokens), 0 outside the mask.
    """
    mask = response_mask.bool()
    next_value = next_advantage = values.new_zeros(values.shape[0])
    advantages, returns = torch.zeros_like(values), torch.zeros_like(values)
    for t in reversed(range(values.shape[1])):
        delta = token_level_rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = torch.where(mask[:, t], delta + gamma * lam * next_advantage, next_advantage)
        next_value = torch.where(mask[:, t], values[:, t], next_value)
        advantages[:, t] = next_advantage.where(mask[:, t], values.new_zeros(()))
        returns[:, t] = (next_advantage + next_value).where(mask[:, t], values.new_zeros(()))
    return (whiten(advantages, mask) if whitened else advantages), returns
