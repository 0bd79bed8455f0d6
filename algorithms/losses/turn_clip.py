"""PPO's clip on the probability ratio of a whole turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.slots import in_range
from rewards.declared import Conflict

CORRECTION = "algorithm.rollout_correction"
LARGEST = 10.0  # of a log-ratio, so that one odd turn cannot overflow


@dataclass
class TurnClip:
    """``max(-A s, -A clip(s, 1 - low, 1 + high))`` with one ratio a turn, ``s = exp(mean over its tokens of logp - old)``.

    The mean is StepPO's (verl's ``gspo`` on one row a turn); that Turn-PPO means the same is assumed: its text was not found. Each
    token passes its own gradient on: ``s_i = sg(s) exp(logp_i - sg(logp_i))``.

    Attributes:
        low, high: of the clip; None: ``actor_rollout_ref.actor.clip_ratio_low`` and ``_high``.
    """

    low: float = 0.2
    high: float = 0.2

    weighed: ClassVar[bool] = True
    ratio_of: ClassVar[str] = "turn"
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            (f"{CORRECTION}.rollout_rs",),
            lambda _, rejected: str(rejected or "").startswith("token"),
            "its ratio is over all tokens of a turn, and some would be dropped",
            f"{CORRECTION}.rollout_rs=null",
        ),
        Conflict(
            (f"{CORRECTION}.rollout_is", "updates"),
            lambda _, weights, updates: weights == "token" and updates > 1,
            "the same samples would be corrected twice over {1} updates",
            f"{CORRECTION}.rollout_is=null",
        ),
    )

    def __post_init__(self) -> None:
        in_range(0, 1, low=self.low)
        in_range(0, high=self.high)

    def __call__(
        self, old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor, mask: Tensor, turn_ids: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        mean = turn_means((log_prob - old_log_prob).detach(), mask.bool(), turn_ids)
        ratio = torch.exp((mean + log_prob - log_prob.detach()).clamp(max=LARGEST))
        free, clipped = -advantages * ratio, -advantages * ratio.clamp(1 - self.low, 1 + self.high)
        return torch.maximum(free, clipped), {"clipped": (clipped > free).float()}


@dataclass
class StepClip(TurnClip):
    """``TurnClip`` with a bound on what a bad turn may cost, ``-dual A`` where A is negative, and the mean over turns of the means over
    their tokens, whatever ``loss_agg_mode`` says (StepPO, arXiv 2604.18401: verl's ``gspo`` on one row a turn, ``seq-mean-token-mean``).

    Attributes:
        dual: x the advantage, at most.
    """

    dual: float = 10.0

    over_turns: ClassVar[bool] = True
    weighed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range(1, dual=self.dual)

    def __call__(
        self, old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor, mask: Tensor, turn_ids: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        losses, found = super().__call__(old_log_prob, log_prob, advantages, mask, turn_ids)
        bound = torch.where(advantages < 0, -self.dual * advantages, torch.inf)
        return torch.minimum(losses, bound), {**found, "bounded": (losses > bound).float()}


def turn_means(values: Tensor, mask: Tensor, turn_ids: Tensor) -> Tensor:
    """(b, T): on each token the mean of its turn's tokens in ``mask``."""
    return turn_sums(values, mask, turn_ids) / turn_sums(torch.ones_like(values), mask, turn_ids).clamp(min=1)


def turn_sums(values: Tensor, mask: Tensor, turn_ids: Tensor) -> Tensor:
    """(b, T): on each token the sum over its turn's tokens in ``mask``."""
    width = int(turn_ids.max()) + 1 if turn_ids.numel() else 1
    where = torch.arange(len(turn_ids), device=values.device).unsqueeze(1) * width + turn_ids
    return values.new_zeros(len(turn_ids) * width).index_add_(0, where[mask], values[mask])[where]
