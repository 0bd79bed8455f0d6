"""Advantages of recorded episodes without a trainer: the same methods, on rows in memory."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from verl.trainer.ppo import core_algos

import turngrid.verl_plugin.training.estimators  # noqa: F401 - registers ours with verl
from turngrid.algorithms.chosen import ALGO, Chosen, slots_of
from turngrid.algorithms.registry import ON_BATCH, STATES
from turngrid.algorithms.slots import Tokens
from turngrid.algorithms.turn_table import turn_table
from turngrid.algorithms.turns import Turns, credited
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.row import to_rows, turns_of_rows
from turngrid.tasks.run import Run
from turngrid.verl_plugin.rollout.turn_fields import PREFIX, turn_fields
from turngrid.verl_plugin.training.estimators import concat_rows, members, split_rows


class Credited(NamedTuple):
    """Advantages of all episodes in order."""

    turns: np.ndarray  # (N,) means over each turn's tokens
    tokens: np.ndarray  # (n,) of each action token


def credited_episodes(
    run: Run, groups: Sequence[Sequence[Episode]], known: Mapping[str, np.ndarray] = MappingProxyType({})
) -> Credited:
    """Compute the advantages that a run would train on.

    They come from an estimator over turns, or else verl's, followed by credit methods. There is no
    KL, no correction of old samples and no filter.

    Args:
        known: ``values`` or ``entropy`` (nats) by name, one number per action token.

    Raises:
        ValueError: an episode has no turn.
    """
    methods, base = Chosen(slots_of(run.config, (*ON_BATCH, ALGO))), run.algorithm
    turns, tokens, keys, owners = _table(run, groups, sorted(methods.reads()), known)
    advantages = tokens.reward
    estimators = methods.of(ALGO, 1)
    for estimator in estimators.values():
        estimates = estimator(turns, tokens).advantages
        advantages = estimates if estimator.grain == "token" else turns.spread(estimates)
    if not estimators:
        advantages = _verls(run.config.algorithm, tokens, keys, owners)
    mask = tokens.mask.long()
    advantages, _ = credited(methods.of("credit", 1), turns, advantages, mask, base.name, base.grain)
    return Credited(turns.mean(advantages, mask)[turns.mask].numpy(), advantages[tokens.mask].double().numpy())


def _table(
    run: Run, groups: Sequence[Sequence[Episode]], named: Sequence[str], known: Mapping[str, np.ndarray]
) -> tuple[Turns, Tokens, list[str], list[str]]:
    """Return the turn table, the tokens, and each row's key and group."""
    state, reward, form = run.config.algo.get("state") or STATES[0], run.turn_reward.name, run.prompt
    rows, records, keys = [], [], []
    for group, episodes in enumerate(groups):
        for sample, episode in enumerate(episodes):
            parts = zip(to_rows(episode, reward), turns_of_rows(episode), strict=True)
            for number, (row, part) in enumerate(parts):
                rows.append(row)
                records.append(turn_fields(episode, *part, state, named, form=form))
                keys.append(f"{group}_{sample}_{number}")
    mask = pad_sequence([torch.tensor(row.mask) for row in rows], batch_first=True)
    rewards = pad_sequence([torch.tensor(row.rewards, dtype=torch.float32) for row in rows], batch_first=True)
    columns = {name.removeprefix(PREFIX): [record[name] for record in records] for name in records[0]}
    owners = [key.split("_")[0] for key in keys]
    row_fields = {"loss_mask": mask, "reward": rewards}
    for name, numbers in known.items():
        column = torch.as_tensor(numbers, dtype=torch.float32)
        row_fields[name] = torch.zeros_like(rewards).masked_scatter(mask.bool(), column)
    turns = turn_table(row_fields, columns, members(keys), owners)
    return turns, Tokens(mask.bool(), rewards, row_fields.get("values"), row_fields.get("entropy")), keys, owners


def _verls(numbers: DictConfig, tokens: Tokens, keys: Sequence[str], owners: Sequence[str]) -> Tensor:
    """Estimate with verl's registry; an episode of several rows is one sequence."""
    episodes = list(members(keys).values())
    arguments: dict[str, Any] = {
        "token_level_rewards": concat_rows(tokens.reward, episodes),
        "response_mask": concat_rows(tokens.mask.long(), episodes),
        "index": [owners[own[0]] for own in episodes],
    }
    estimate = core_algos.get_adv_estimator_fn(numbers.adv_estimator)
    if tokens.value is None:
        advantages, _ = estimate(**arguments, config=numbers)
    else:  # verl's GAE has another signature than its other estimators
        del arguments["index"]
        values = concat_rows(tokens.value, episodes)
        advantages, _ = estimate(**arguments, values=values, gamma=numbers.gamma, lam=numbers.lam)
    return split_rows(advantages, episodes, len(keys))
