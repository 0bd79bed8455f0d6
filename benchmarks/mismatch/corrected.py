"""A step's policy loss under ``correction=`` without a trainer: verl's functions, on tensors."""

from dataclasses import dataclass

import torch
from omegaconf import DictConfig
from torch import Tensor
from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_rejection_mask
from verl.utils.config import omega_conf_to_dataclass

from turngrid.algorithms.group import rloo
from turngrid.algorithms.pools import live_rows, sums

KEYS = ("rollout_is", "rollout_is_threshold", "rollout_rs", "rollout_rs_threshold")


@dataclass(frozen=True)
class Rows:
    """Rows of action tokens alone."""

    sampler: Tensor  # (rows, tokens) log-probs that the sampler reported
    scores: Tensor  # (rows,) returns
    group: Tensor  # (rows,) int64, the prompt of each row
    step: Tensor  # (rows,) int64


class Correction:
    """The correction and the policy loss of a config."""

    def __init__(self, config: DictConfig) -> None:
        self.settings = config.algorithm.rollout_correction
        self.actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)

    def weighed(self, trainer: Tensor, sampler: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return weights of tokens, or None, and the mask of tokens that are not rejected."""
        mask = torch.ones_like(trainer)
        if self.settings.bypass_mode:
            return None, mask
        settings = {key: self.settings[key] for key in KEYS}
        weights, mask, _ = compute_rollout_correction_and_rejection_mask(trainer, sampler, mask, **settings)
        return None if weights is None else weights.batch["rollout_is_weights"], mask

    def loss(self, log_prob: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the sum of the steps' losses, and which tokens count, (rows, tokens) of 0 or 1.

        The advantages are RLOO's. As in the trainer, a row is dropped if no other row of its group
        is left. A step's loss is the mean over the remaining tokens: advantages are divided by
        their number.

        Args:
            log_prob: (rows, tokens) the trainer's log-probs, with a gradient. They are the old ones
                too: a step has one update.
        """
        weights, mask = self.weighed(log_prob.detach(), rows.sampler)
        live = live_rows(mask)
        mask = mask * (live & (sums(live.double(), rows.group)[rows.group] > 1)).unsqueeze(1)
        if not mask.any():
            return log_prob.sum() * 0, mask
        rewards = torch.zeros_like(rows.sampler)
        rewards[:, -1] = rows.scores
        advantages, _ = rloo(rewards, mask, rows.group.tolist())
        tokens = sums(mask.sum(dim=1), rows.step)[rows.step].clamp(min=1).unsqueeze(1)
        old = rows.sampler if self.settings.bypass_mode else log_prob.detach()
        loss, _ = compute_policy_loss_vanilla(
            old, log_prob, advantages / tokens, mask, "token-sum", self.actor, rollout_is_weights=weights
        )
        return loss, mask if weights is None else mask * (weights > 0)
