from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.rewards.declared import Conflict, Method, number

CORRECTION = "algorithm.rollout_correction"
LARGEST = 10.0  # limit of a log-ratio, so that one outlier turn cannot overflow
DROPS_TOKENS = Conflict(
    (f"{CORRECTION}.rollout_rs",),
    lambda _, rejected: "token" in str(rejected),
    "it takes all sampled tokens, and some would be dropped",
    f"{CORRECTION}.rollout_rs=null",
)


@dataclass(kw_only=True)
class TurnClip(Method):
    """``max(-A s, -A clip(s, 1 - low, 1 + high))`` with one ratio s a turn.

    ``s = exp(mean over its tokens of logp - old)``. Each token passes its own gradient on: ``s_i =
    sg(s) exp(logp_i - sg(logp_i))``.
    """

    low: float = number(0, 1)
    high: float = number(0)

    weighed = True
    ratio_of = "turn"
    conflicts = (
        DROPS_TOKENS,
        Conflict(
            (f"{CORRECTION}.rollout_is", "updates"),
            lambda _, weights, updates: weights == "token" and updates > 1,
            "the same samples would be corrected twice over {1} updates",
            f"{CORRECTION}.rollout_is=null",
        ),
    )

    def __call__(
        self, old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor, mask: Tensor, turn_ids: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        own, alive = (log_prob - old_log_prob).detach(), mask.bool()
        mean = turn_sums(own, alive, turn_ids) / turn_sums(torch.ones_like(own), alive, turn_ids).clamp(min=1)
        ratio = torch.exp((mean + log_prob - log_prob.detach()).clamp(max=LARGEST))
        free, clipped = -advantages * ratio, -advantages * ratio.clamp(1 - self.low, 1 + self.high)
        return torch.maximum(free, clipped), {"clipped": (clipped > free).float()}


def turn_sums(values: Tensor, mask: Tensor, turn_ids: Tensor) -> Tensor:
    """Return, on each token, the sum over its turn's tokens in ``mask``; (b, T)."""
    width = int(turn_ids.max()) + 1 if turn_ids.numel() else 1
    where = torch.arange(len(turn_ids), device=values.device).unsqueeze(1) * width + turn_ids
    return values.new_zeros(len(turn_ids) * width).index_add_(0, where[mask], values[mask])[where]
