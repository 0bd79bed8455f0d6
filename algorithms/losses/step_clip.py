from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.losses.turn_clip import TurnClip
from turngrid.rewards.declared import number


@dataclass(kw_only=True)
class StepClip(TurnClip):
    """``TurnClip``, at most ``-dual A`` if A < 0, and the mean over turns of means over tokens.

    ``loss_agg_mode`` has no effect on it.
    """

    dual: float = number(1)

    over_turns = True
    weighed = True

    def __call__(
        self, old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor, mask: Tensor, turn_ids: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        losses, metrics = super().__call__(old_log_prob, log_prob, advantages, mask, turn_ids)
        bound = torch.where(advantages < 0, -self.dual * advantages, torch.inf)
        return torch.minimum(losses, bound), {**metrics, "bounded": (losses > bound).float()}
