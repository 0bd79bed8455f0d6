"""Which metrics of a run are drawn, and a run's metrics by RL step as a data frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from records.files.json_lines import read_lines

SUCCESS, EPISODES = "success/train", "rollout/episodes"

# Further metrics that are drawn -> title, unit. A name that ends in "/" stands for all names that begin with it.
SHOWN: Mapping[str, tuple[str, str]] = {
    "success/by_task/": ("success in", "share"),
    "success/by_type/": ("success in", "share"),
    "rollout/entropy": ("entropy", "nats a token"),
    "actor/ppo_kl": ("KL of the update", "nats a token"),
    "actor/kl_loss": ("KL to the first model", "nats a token"),
    "reward/kl_penalty": ("KL to the first model", "nats a token"),
    "rollout/turns": ("turns", "an episode"),
    "rollout/tokens_per_turn": ("action tokens", "a turn"),
    "rollout/thought_tokens": ("thought tokens", "a turn"),
    "rollout/response_tokens/mean": ("row length", "tokens"),
    "rollout/invalid_actions": ("not understood", "share of actions"),
    "rollout/unparsed_actions": ("without an action", "share of answers"),
    "credit/groups_without_signal": ("groups without signal", "share"),
    "credit/repeated_states": ("repeated states", "share of turns"),
    "filter/": ("filter", ""),
    "terms/": ("term", ""),
    "buffer/": ("buffer", ""),
    "replay/loss": ("replay: loss", ""),
}

_decoder = msgspec.json.Decoder(dict[str, Any])


@cache
def family(name: str) -> str | None:
    """Return the entry of ``SHOWN`` that a metric belongs to; None if the metric is not drawn."""
    return next((key for key in SHOWN if name == key or (key.endswith("/") and name.startswith(key))), None)


def title_of(name: str) -> tuple[str, str]:
    """Return title and unit of a drawn metric."""
    key = family(name)
    if key is None or key == name:
        return SHOWN.get(name, (name, ""))
    title, unit = SHOWN[key]
    return f"{title} {name.removeprefix(key).replace('/', ' ').replace('_', ' ')}", unit


def read_curve(path: Path) -> pd.DataFrame:
    """Read the drawn metrics of ``metrics.jsonl``; skip a last line that a kill cut short."""
    return curve_of(_decoder.decode(line) for line in read_lines(path))


def curve_of(lines: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the drawn metrics, indexed by step, with ``EPISODES`` summed up; empty if no step has training episodes."""
    names = {"step", SUCCESS, EPISODES}
    rows = {  # by step: the last line of a repeated step counts
        line["step"]: {name: value for name, value in line.items() if name in names or family(name)}
        for line in lines
        if line.get(SUCCESS) is not None
    }
    if not rows:
        return pd.DataFrame()
    found = pd.DataFrame(list(rows.values())).set_index("step").apply(pd.to_numeric, errors="coerce")
    found[EPISODES] = found.get(EPISODES, pd.Series(0.0, found.index)).fillna(0).round().cumsum()
    return found.dropna(axis="columns", how="all")
