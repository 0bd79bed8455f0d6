"""REINFORCE++: discounted returns over action tokens, whitened over the whole batch."""

from __future__ import annotations

import torch
from torch import Tensor

from turngrid.algorithms.pools import whiten


@torch.no_grad()
def reinforce_plus_plus(
    token_level_rewards: Tensor, response_mask: Tensor, gamma: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return whitened ``G_k = r_k + gamma * G_{k+1}`` (arXiv 2501.03262, equations 6 to 8).

    Observation tokens carry the running return unchanged, so the reward of the last turn reaches
    the first. The paper's KL penalty is part of the rewards if ``algorithm.use_kl_in_reward`` is
    set.

    Args:
        token_level_rewards: shape (rows, tokens), each turn's reward on that turn's last action
            token.
        response_mask: shape (rows, tokens), 1 on action tokens.
        gamma: discount an action token.

    Returns:
        ``(advantages, returns)``, each of shape (rows, tokens), 0 outside the mask.
    """
    mask = response_mask.bool()
    zero = token_level_rewards.new_zeros(())
    running = token_level_rewards.new_zeros(token_level_rewards.shape[0])
    returns = torch.zeros_like(token_level_rewards)
    for t in reversed(range(returns.shape[1])):
        running = torch.where(mask[:, t], token_level_rewards[:, t] + gamma * running, running)
        returns[:, t] = running.where(mask[:, t], zero)
    return whiten(returns, mask), returns
