from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.losses.turn_clip import LARGEST
from turngrid.rewards.declared import Method, number


@dataclass(kw_only=True)
class AepoClip(Method):
    """``max(-A r, -A clip(r, 1 - low, (1 + high) r / sg(r)))``, at most ``-dual A`` if A < 0.

    The loss is PPO's. If A > 0 and r > 1 + high, the gradient is ``-(1 + high) A``, not 0.
    """

    low: float = number(0, 1)
    high: float = number(0)
    dual: float = number(1)

    weighed = True

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
