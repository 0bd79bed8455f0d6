"""verl's policy loss in the workers, extended by our loss forms and loss terms.

Inputs come with a step's batch: coefficients under ``IN_WORKERS``, numbers a token as fields.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from json import dumps, loads
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss, register_policy_loss
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional as verl_F
from verl.utils.device import get_device_id
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from turngrid.algorithms.chosen import Chosen
from turngrid.algorithms.losses.turn_clip import turn_sums
from turngrid.algorithms.registry import LOSS_MODE
from turngrid.algorithms.slots import LossView
from turngrid.verl_plugin.averaged import weights_of_pass
from turngrid.verl_plugin.value_heads import SUMS, without_0_tokens

IN_WORKERS = "turngrid_methods"  # key of a batch's extra_info, and so of a worker's data
EPISODES = "turngrid_episodes"  # likewise; number of episodes of an update, if they have several rows each
SEQUENCES = "turngrid_sequences"  # likewise; number of sequences with a common prefix for each row of a pass
PREFIX = "term_"  # prefix of the fields of loss terms: term_<term>_<number>
TURNS = "turns"  # key in SUMS

_of_pass: ContextVar[Mapping[str, Any]] = ContextVar("settings of the loss form")


@cache
def _made(slots: str) -> Chosen:
    return Chosen(loads(slots))


def made(slots: Mapping[str, Any]) -> Chosen:
    """Return the methods with these settings, built once a process."""
    return _made(dumps(slots))


def with_sums(
    usual: Callable[..., Any], engine: Any, data: TensorDict, loss_function: Any, forward_only: bool = False
) -> Any:
    """Divide loss terms by their total weights over all passes and devices.

    ``loss_agg_mode=seq-mean-*`` divides by episodes, not by rows. A pass may run with averaged
    weights (``averaged``).

    Until verl's losses take columns and terms of a plugin.
    """
    if episodes := tu.get_non_tensor_data(data, EPISODES, default=None):
        tu.assign_non_tensor(data, global_batch_size=episodes)
    asked = tu.get_non_tensor_data(data, IN_WORKERS, default=None) or {}
    if asked.get("replay"):
        tu.assign_non_tensor(data, update_lr_scheduler=False)  # verl advances it with each call
    names = sorted(key for key in fields_of(data) if key.endswith("_weight"))
    numbers = {} if forward_only else {name: data[name].values().double().sum() for name in names}
    if not forward_only and over_turns(asked):
        numbers[TURNS] = torch.tensor(turns_in(data), dtype=torch.float64)
    if numbers:
        sums = torch.stack(list(numbers.values())).to(get_device_id())
        torch.distributed.all_reduce(sums, group=engine.get_data_parallel_group())
        tu.assign_non_tensor(data, **{SUMS: dict(zip(numbers, sums.tolist(), strict=True))})
    with weights_of_pass(engine, data):
        return usual(engine, data, loss_function, forward_only)


def over_turns(asked: Mapping[str, Any]) -> bool:
    forms = made({"loss": asked.get("loss") or {}}).of("loss", asked.get("step", 1)).values()
    return any(getattr(form, "over_turns", False) for form in forms)


def turns_in(data: TensorDict) -> int:
    """Count the turns with an action token that is trained on."""
    alive, ids = data["response_mask"], data["turn_ids"]
    rows = torch.arange(len(data), device=ids.device).repeat_interleave(ids.offsets().diff())
    return len(torch.stack([rows, ids.values()])[:, alive.values().bool()].unique(dim=1).T)


def with_methods(
    usual: Callable[..., tuple[Tensor, dict[str, Any]]],
    config: Any,
    model_output: Any,
    data: TensorDict,
    dp_group: Any = None,
) -> tuple[Tensor, dict[str, Any]]:
    """Compute losses that need turn ids, loss terms, and updates in which every token is muted.

    Until verl's losses take columns and terms of a plugin.
    """
    asked = tu.get_non_tensor_data(data, IN_WORKERS, default=None)
    without_0_tokens(data)
    if not asked:
        return usual(config=config, model_output=model_output, data=data, dp_group=dp_group)
    names = ["turn_ids", *(key for key in fields_of(data) if key.startswith(PREFIX))]
    own = dict(data.select(*names).to_padded_tensor().items())
    sums = tu.get_non_tensor_data(data, SUMS, default={})
    scale = float(data["dp_size"]) / max(1.0, sums.get(TURNS, 1.0))
    token = _of_pass.set({"turn_ids": own["turn_ids"], "turn_scale": scale, **asked})
    try:
        replayed = asked.get("replay")
        settings = replace(config, use_kl_loss=False, entropy_coeff=0.0) if replayed else config
        loss, metrics = usual(config=settings, model_output=model_output, data=data, dp_group=dp_group)
    finally:
        _of_pass.reset(token)
    for name in asked.get("terms", {}):
        term, term_metrics = _term(name, asked, model_output, data, own)
        loss, metrics = loss + term, metrics | term_metrics
    return loss, metrics


def fields_of(data: TensorDict) -> list[str]:
    return [str(key) for key in data.keys()]  # noqa: SIM118 - iterating over a TensorDict gives its rows


def _term(
    name: str, asked: Mapping[str, Any], output: Any, data: TensorDict, own: Mapping[str, Tensor]
) -> tuple[Tensor, dict[str, Any]]:
    prefix, entropy = f"{PREFIX}{name}_", output.get("entropy", None)
    whole = tu.get_non_tensor_data(data, SUMS, default={})[f"{prefix}weight"]
    view = LossView(
        log_prob=no_padding_2_padding(output["log_probs"], data),
        entropy=None if entropy is None else no_padding_2_padding(entropy, data),
        data={key.removeprefix(prefix): column for key, column in own.items() if key.startswith(prefix)},
        scale=float(data["dp_size"]) / whole if whole else 0.0,
    )
    term = made({"terms": asked["terms"]}).of("terms", asked["step"])[name]
    loss, metrics = term.loss(view, asked["coefficients"][name])
    named = {f"actor/{name}": loss.detach()} | {f"actor/{name}/{key}": value for key, value in metrics.items()}
    return loss, {key: Metric(AggregationType.SUM, value) for key, value in named.items()}


@register_policy_loss(LOSS_MODE)
def own_loss_form(
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, Any]]:
    asked = _of_pass.get()
    (form,) = made({"loss": asked["loss"]}).of("loss", asked["step"]).values()
    losses, metrics = form(old_log_prob, log_prob, advantages, response_mask, asked["turn_ids"])
    if rollout_is_weights is not None:
        losses = losses * rollout_is_weights
    if getattr(form, "over_turns", False):
        tokens = turn_sums(torch.ones_like(losses), response_mask.bool(), asked["turn_ids"])  # of each token's turn
        loss = (losses * (response_mask / tokens.clamp(min=1))).sum() * asked["turn_scale"]
    else:
        settings = {"loss_agg_mode": loss_agg_mode, **config.global_batch_info}
        loss = agg_loss(loss_mat=losses, loss_mask=response_mask, **settings)
    kl = verl_F.masked_mean(old_log_prob - log_prob, response_mask)
    shown = {f"actor/{name}": verl_F.masked_mean(value, response_mask).item() for name, value in metrics.items()}
    return loss, {"actor/ppo_kl": kl.item(), **shown}
