"""Registers our advantage estimators with verl, and computes the KL in the reward."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from verl.trainer.ppo import core_algos

from turngrid.algorithms.pools import live_rows
from turngrid.algorithms.registry import ALGORITHMS, ON_TURNS, QUIRKS

Estimator = Callable[..., tuple[Tensor, Tensor]]


def register_all() -> None:
    """Register every estimator of ours; a second call changes nothing.

    Raises:
        ValueError: another function already has the name.
    """
    for algorithm in [*ALGORITHMS.values(), *QUIRKS.values()]:
        if algorithm.function and algorithm.estimator not in core_algos.ADV_ESTIMATOR_REGISTRY:
            module, _, name = algorithm.function.partition(":")
            core_algos.register_adv_est(algorithm.estimator)(adapt(getattr(importlib.import_module(module), name)))
    core_algos.register_adv_est(ON_TURNS)(none_yet)


def none_yet(response_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    """Estimate nothing: an estimator over turns runs later (``step_methods``)."""
    zeros = torch.zeros_like(response_mask, dtype=torch.float32)
    return zeros, zeros


def adapt(function: Estimator) -> Estimator:
    """Wrap a function in verl's signature; its own parameters are filled by name from ``index`` and
    ``config``.
    """
    wanted = set(inspect.signature(function).parameters)

    def estimator(
        token_level_rewards: Tensor, response_mask: Tensor, config: Any = None, index: Any = None, **_: Any
    ) -> tuple[Tensor, Tensor]:
        offered = {name: None if config is None else config.get(name, None) for name in wanted} | {"index": index}
        settings = {name: value for name, value in offered.items() if name in wanted and value is not None}
        return function(token_level_rewards, response_mask, **settings)

    return estimator


def apply_kl_penalty(data: Any, kl_ctrl: Any, kl_penalty: str = "kl") -> tuple[Any, dict[str, float]]:
    """Subtract ``beta * KL`` from each action token's reward, and average the KL over live rows;
    verl's mean counts padding (a bug).

    Until verl fixes it.

    Args:
        data: a DataProto with ``response_mask``, ``token_level_scores``, ``old_log_probs`` and
            ``ref_log_prob``, each of shape (rows, tokens), log-probs in nats.
        kl_ctrl: verl's controller, whose ``value`` is beta.
        kl_penalty: the name of verl's KL estimator.

    Returns:
        ``data`` with ``token_level_rewards``, and the metrics: the mean KL a token (nats, over the
            live rows) and beta.
    """
    mask, beta = data.batch["response_mask"], kl_ctrl.value
    kl = core_algos.kl_penalty(data.batch["old_log_probs"], data.batch["ref_log_prob"], kl_penalty=kl_penalty) * mask
    data.batch["token_level_rewards"] = data.batch["token_level_scores"] - beta * kl
    live = live_rows(mask)
    mean_kl = (kl.sum(dim=-1)[live] / mask.sum(dim=-1)[live]).mean().item() if live.any() else 0.0
    kl_ctrl.update(current_kl=mean_kl, n_steps=int(live.sum()))
    return data, {"actor/reward_kl_penalty": mean_kl, "actor/reward_kl_penalty_coeff": beta}


register_all()
