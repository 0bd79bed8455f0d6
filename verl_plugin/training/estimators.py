"""Registers our estimators with verl, makes verl's count episodes, and computes the KL."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from verl.protocol import DataProto
from verl.trainer.ppo import core_algos

from turngrid.algorithms.pools import live_rows
from turngrid.algorithms.registry import ALGORITHMS, ON_TURNS
from turngrid.envs.extensions import load

Estimator = Callable[..., tuple[Tensor, Tensor]]
INPUTS = ("token_level_rewards", "response_mask", "values")  # tensors that the estimators read
OUTPUTS = ("advantages", "returns")


def register_all() -> None:
    """Register our estimators, once; raise ValueError if a name is taken."""
    for algorithm in ALGORITHMS.values():
        if algorithm.function and algorithm.estimator not in core_algos.ADV_ESTIMATOR_REGISTRY:
            core_algos.register_adv_est(algorithm.estimator)(adapt(load(algorithm.function)))
    core_algos.register_adv_est(ON_TURNS)(none_yet)


def none_yet(response_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    """Estimate nothing: an estimator over turns runs later (``step_methods``)."""
    zeros = torch.zeros_like(response_mask, dtype=torch.float32)
    return zeros, zeros


def adapt(function: Estimator) -> Estimator:
    """Wrap a function in verl's signature; ``index`` and ``config`` fill its parameters."""
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
    """
    mask, beta = data.batch["response_mask"], kl_ctrl.value
    kl = core_algos.kl_penalty(data.batch["old_log_probs"], data.batch["ref_log_prob"], kl_penalty=kl_penalty) * mask
    data.batch["token_level_rewards"] = data.batch["token_level_scores"] - beta * kl
    live = live_rows(mask)
    mean_kl = (kl.sum(dim=-1)[live] / mask.sum(dim=-1)[live]).mean().item() if live.any() else 0.0
    kl_ctrl.update(current_kl=mean_kl, n_steps=int(live.sum()))
    return data, {"actor/reward_kl_penalty": mean_kl, "actor/reward_kl_penalty_coeff": beta}


# ---- episodes with several rows, one a window


def members(keys: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of each episode's rows in window order, by ``<prompt>_<sample>``."""
    episodes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, key in enumerate(keys):
        name, _, row = key.rpartition("_")
        episodes[name].append((int(row), number))
    return {name: [number for _, number in sorted(rows)] for name, rows in episodes.items()}


def concat_rows(rows: Tensor, episodes: Sequence[Sequence[int]]) -> Tensor:
    """Join each episode's rows, padded with 0: (rows, tokens) -> (episodes, most rows x tokens)."""
    longest = max(map(len, episodes))
    joined = rows.new_zeros((len(episodes), longest, rows.shape[1]))
    for number, members in enumerate(episodes):
        joined[number, : len(members)] = rows[list(members)]
    return joined.reshape(len(episodes), -1)


def split_rows(joined: Tensor, episodes: Sequence[Sequence[int]], rows: int) -> Tensor:
    """Undo ``concat_rows``."""
    parts = joined.reshape(len(episodes), max(map(len, episodes)), -1)
    split = joined.new_zeros((rows, parts.shape[2]))
    for number, members in enumerate(episodes):
        split[list(members)] = parts[number, : len(members)]
    return split


def by_episode(
    original: Callable[..., DataProto], data: DataProto, batch_keys: list[str], **settings: Any
) -> DataProto:
    """Estimate over whole episodes: verl's GRPO scores the last row only, and others count rows.

    The rows of an episode, one a window, are concatenated. So a group's baseline counts each
    episode once, and values and returns continue from window to window.

    Until verl counts episodes.
    """
    episodes = list(members(batch_keys).values())
    if len(episodes) == len(batch_keys):
        return original(data, batch_keys=batch_keys, **settings)
    joined = {name: concat_rows(data.batch[name], episodes) for name in INPUTS if name in data.batch}
    groups = {"uid": data.non_tensor_batch["uid"][[members[0] for members in episodes]]}
    from verl.trainer.ppo.ray_trainer import compute_advantage  # imported here to avoid a circular import

    whole = compute_advantage(DataProto.from_dict(joined, non_tensors=groups), **settings)
    for name in OUTPUTS:
        data.batch[name] = split_rows(whole.batch[name], episodes, len(batch_keys))
    return data


register_all()
