"""Advantages of episodes that no trainer holds: the same estimators and credit, on rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from omegaconf import DictConfig
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from verl.trainer.ppo import core_algos

from algorithms.chosen import ALGO, Chosen, algorithm, slots_of
from algorithms.credited import credited
from algorithms.registry import ON_BATCH, STATES
from algorithms.slots import Tokens
from algorithms.turns import Turns, turn_table
from rollouts.episode import Episode
from rollouts.row import to_rows, window_starts
from verl_plugin.rollout.turn_fields import PREFIX, turn_fields
from verl_plugin.training.episode_advantages import concat_rows, sessions, split_rows


def turn_advantages(config: DictConfig, groups: Sequence[Sequence[Episode]]) -> list[list[list[float]]]:
    """What a run of this config would learn of each turn: the mean over its tokens, by group, episode and turn.

    An estimator over turns, or verl's, then credit; no KL, no correction of old samples, no filters.

    Raises:
        ValueError: an episode without a turn, or a group of one sample where an algorithm compares them.
    """
    methods = Chosen(slots_of(config, (*ON_BATCH, ALGO)))
    turns, tokens, keys, owners = _table(config, groups, sorted(methods.reads()))
    advantages, kind = tokens.reward, algorithm(config.algo.name)
    estimators = methods.of(ALGO, 1)
    for estimator in estimators.values():
        found = estimator(turns, tokens).advantages
        advantages = found if estimator.grain == "token" else turns.spread(found)
    if not estimators:
        advantages = _verls(config, tokens, keys, owners)
    mask = tokens.mask.long()
    advantages, _ = credited(methods.of("credit", 1), turns, advantages, mask, config.algo.name, kind.grain)
    rows = iter(zip(turns.mean(advantages, mask).tolist(), turns.mask.sum(dim=1).tolist(), strict=True))
    return [[row[:count] for _, (row, count) in zip(group, rows, strict=False)] for group in groups]


def _table(
    config: DictConfig, groups: Sequence[Sequence[Episode]], named: Sequence[str]
) -> tuple[Turns, Tokens, list[str], list[str]]:
    """The turn table, the tokens, and each row's key and group."""
    state, reward = config.algo.get("state") or STATES[0], str(config.turn_reward.name)
    rows, records, keys = [], [], []
    for group, episodes in enumerate(groups):
        for sample, episode in enumerate(episodes):
            parts = pairwise([*window_starts(episode), len(episode.turns)])
            for number, (row, part) in enumerate(zip(to_rows(episode, reward), parts, strict=True)):
                rows.append(row)
                records.append(turn_fields(episode, *part, state, named))
                keys.append(f"{group}_{sample}_{number}")
    mask = pad_sequence([torch.tensor(row.mask) for row in rows], batch_first=True)
    rewards = pad_sequence([torch.tensor(row.rewards, dtype=torch.float32) for row in rows], batch_first=True)
    columns = {name.removeprefix(PREFIX): [record[name] for record in records] for name in records[0]}
    owners = [key.split("_")[0] for key in keys]
    members = {keys[own[0]].rpartition("_")[0]: own for own in sessions(keys)}
    turns = turn_table({"loss_mask": mask, "reward": rewards}, columns, members, owners)
    return turns, Tokens(mask.bool(), rewards), keys, owners


def _verls(config: DictConfig, tokens: Tokens, keys: Sequence[str], owners: Sequence[str]) -> Tensor:
    """From verl's registry, in which ours are too; an episode of several rows is one sequence."""
    episodes = sessions(keys)
    laid: dict[str, Any] = {
        "token_level_rewards": concat_rows(tokens.reward, episodes),
        "response_mask": concat_rows(tokens.mask.long(), episodes),
        "index": [owners[own[0]] for own in episodes],
    }
    found, _ = core_algos.get_adv_estimator_fn(config.algorithm.adv_estimator)(**laid, config=config.algorithm)
    return split_rows(found, episodes, len(keys))
