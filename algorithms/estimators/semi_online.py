"""Advantages of turns that an expert plan judges (UI-S1)."""

from dataclasses import dataclass

import torch

from turngrid.algorithms.pools import compared, deviations, pools
from turngrid.algorithms.registry import FORM
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import GROUPS, Method, excludes, number, only, without
from turngrid.rewards.registry import PLAN_SHARE

BY_SCORE = ("std_top", "std_top_p", "std_min_p", "zero_std", "dynamic_sampling", "difficulty", "solved")


@dataclass(kw_only=True)
class SemiOnline(Method):
    """``A_t = episode_weight z(share) + turn_weight z(R_t)``.

    r is ``format`` for an answer with an action, and ``1 - format`` more if the action is the
    expert's. ``R_t = r_t + gamma R_{t+1}`` if it is. Else ``R_t = r_t``: what follows the plan's
    action is no credit of the one that it replaced. The share is that of the plan's turns that
    matched, compared within the group. R_t is compared with that of the group's turns t. Both are
    divided by the unbiased deviation. A group's advantages are 0 if the biased deviation of R_0 is
    at most ``threshold``.
    """

    gamma: float = number(0, 1)
    episode_weight: float = number(0)
    turn_weight: float = number(0)
    format: float = number(0, 1)
    threshold: float = number(0)

    grain = "turn"
    requires = frozenset({GROUPS})
    reads = frozenset({PLAN_SHARE})
    conflicts = (
        only(FORM, ("semi_online",), reason="no plan judges turns", use=f"{FORM}=semi_online"),
        excludes("filter", *BY_SCORE, reason="they read the environment's reward, and it learns from matches"),
        without("algorithm.use_kl_in_reward", "it reads no reward but the matches", "algorithm.use_kl_in_reward=false"),
    )

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        share = turns.named[PLAN_SHARE]
        matched = (share > 0).double()
        rewards = (self.format * turns.parsed + (1 - self.format) * matched) * turns.mask
        returns = discounted(rewards, self.gamma * matched)
        episode, turn = turns.flat()
        values = compared(returns[turns.mask], pools(turns.group[episode], turn), std=True)
        of_turns = torch.zeros_like(returns).masked_scatter(turns.mask, values)
        of_episode = compared(share.sum(dim=1), turns.group, std=True)
        advantages = self.episode_weight * of_episode.unsqueeze(1) + self.turn_weight * of_turns
        differ = deviations(returns[:, :1].sum(dim=1), turns.group, biased=True) > self.threshold
        return Estimate(advantages * differ[turns.group].unsqueeze(1) * turns.mask, returns)
