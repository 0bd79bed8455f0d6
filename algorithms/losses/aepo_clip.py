"""AEPO's clip: what PPO's stops from growing goes on learning, at a bounded weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.losses.turn_clip import LARGEST
from algorithms.slots import in_range


@dataclass
class AepoClip:
    """``max(-A r, -A clip(r, 1 - low, (1 + high) r / sg(r)))``, at most ``-dual A`` where A is negative (AEPO, arXiv 2510.14545, and its
    released code). The loss is PPO's; a token with A > 0 and r > 1 + high has the gradient ``-(1 + high) A`` by its log-prob, there 0.

    Attributes:
        low, high: of the clip.
        dual: x the advantage, at most.
    """

    low: float = 0.2
    high: float = 0.2
    dual: float = 3.0

    weighed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        in_range(0, 1, low=self.low)
        in_range(0, high=self.high)
        in_range(1, dual=self.dual)

    def __call__(
        self, old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor, mask: Tensor, turn_ids: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        ratio = torch.exp((log_prob - old_log_prob).clamp(max=LARGEST))
        above = ratio.detach() > 1 + self.high
        kept = torch.where(
            above, (1 + self.high) * torch.exp(log_prob - log_prob.detach()), ratio.clamp(min=1 - self.low)
        )
        free, clipped = -advantages * ratio, -advantages * kept
        bound = torch.where(advantages < 0, -self.dual * advantages, torch.inf)
        return torch.minimum(torch.maximum(free, clipped), bound), {"clipped": (clipped > free).float()}
