"""The settings that the runs of a report share and those that vary, from their configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from turngrid.experiments.report.runs import Run
from turngrid.records.run_folder import outside_identity

NAMED = {  # config key -> name of the axis if the runs belong to no sweep
    "env.name": "env",
    "env.task": "task",
    "turn_reward.name": "reward",
    "algo.name": "algo",
    "budget.name": "budget",
    "curriculum.name": "curriculum",
    "model.name": "model",
}
SHOWN = (  # config keys in the order in which the page shows them
    *NAMED,
    "env.max_turns",
    "budget.units",
    "budget.count",
    "budget.rl_steps",
    "budget.sft_share",
    "data.train_batch_size",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.rollout.temperature",
    "actor_rollout_ref.actor.optim.lr",
    "critic.optim.lr",
    "actor_rollout_ref.actor.clip_ratio",
    "actor_rollout_ref.actor.loss_agg_mode",
    "algorithm.gamma",
    "algorithm.lam",
    "algorithm.use_kl_in_reward",
    "algorithm.kl_ctrl.kl_coef",
    "actor_rollout_ref.actor.use_kl_loss",
    "actor_rollout_ref.actor.kl_loss_coef",
    "model.sft.lr",
    "model.sft.epochs",
    "eval.tasks",
    "eval.games",
    "eval.samples_per_game",
    "eval.temperatures",
)
MISSING = "-"


def shared_and_varied(runs: Sequence[Run]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the shown settings that all runs share, and all settings that vary, by key."""
    known = [run for run in runs if run.settings]
    varied = {key: _values(known, key) for key in varying(known)}
    values = {key: _values(known, key) for key in SHOWN if key not in varied}
    return {key: found[0] for key, found in values.items() if found and found != [MISSING]}, varied


def varying(runs: Sequence[Run]) -> list[str]:
    """Return the keys that differ between runs, without seeds, trackers and machine."""
    moving = [str(key) for key, count in _table(runs).nunique().items() if count > 1]
    seeds = {key for key in moving if all(run.settings.get(key) == run.seed for run in runs)}
    outside = tuple(
        f"{key}." for key in (*outside_identity(), "extend")
    )  # differs by seed: each extends a separate run
    keys = sorted(key for key in moving if key not in seeds and not f"{key}.".startswith(outside))
    return sorted(keys, key=lambda key: SHOWN.index(key) if key in SHOWN else len(SHOWN))


def _table(runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row per run and one column per key; values as text, since some are lists."""
    rows = [{key: repr(value) for key, value in run.settings.items()} for run in runs]
    return pd.DataFrame(rows).fillna("None")


def _values(runs: Sequence[Run], key: str) -> list[str]:
    return list(dict.fromkeys(_text(run.settings.get(key)) for run in runs))


def _text(value: Any) -> str:
    if value is None or value == []:
        return MISSING
    return f"{value:g}" if isinstance(value, float) else str(value)


def coordinates(runs: Sequence[Run]) -> list[Mapping[str, str]]:
    """Return axes: the named keys that vary, and others until every config differs."""
    keys, table = varying(runs), _table(runs)
    axes = [key for key in keys if key in NAMED]
    for key in (key for key in keys if key not in NAMED):
        if _different(table, [*axes, key]) > _different(table, axes):
            axes.append(key)
    return [{NAMED.get(key, key): _text(run.settings.get(key)) for key in axes} for run in runs]


def _different(table: pd.DataFrame, keys: Sequence[str]) -> int:
    """Count the distinct combinations of these keys' values."""
    return len(table[list(keys)].drop_duplicates()) if keys else 1
