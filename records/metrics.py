"""A run's metrics: one JSON line a step, without duplicates after a resume.

All logs and trackers have the names of ``FAMILIES`` (docs/tracking.md).
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turngrid.records.files.json_lines import append_line

FAMILIES = (
    *("success", "reward", "shaping", "credit", "rollout", "budget", "timing", "mismatch", "reasoning"),
    *("filter", "terms", "buffer", "library", "replay", "actor", "critic", "sft", "curriculum", "verl"),
)
OTHERS = "verl/"

# verl's name, or a prefix that ends in "/" -> ours; the first match decides
RENAMED: Mapping[str, str] = {
    "critic/advantages/": "credit/advantage/",
    "critic/returns/": "credit/return/",
    "critic/values/": "credit/value/",
    "critic/vf_explained_var": "credit/value/explained_variance",
    "critic/score/": "reward/trained/",  # of an episode of the step, as it reached verl
    "critic/rewards/": "reward/after_kl/",  # of trained rows, less the KL penalty of algorithm.use_kl_in_reward
    "actor/reward_kl_penalty": "reward/kl_penalty",
    "actor/reward_kl_penalty_coeff": "reward/kl_coefficient",
    "response_length/clip_ratio": "verl/response_length/clip_ratio",  # against the batch's longest row: never 0
    "prompt_length/clip_ratio": "verl/prompt_length/clip_ratio",
    "response_length/": "rollout/response_tokens/",
    "prompt_length/": "rollout/prompt_tokens/",
    "num_turns/min": "rollout/turns_min",
    "num_turns/max": "rollout/turns_max",
    "timing_s/": "timing/",
    "actor/perf/": "verl/actor/perf/",
    "critic/perf/": "verl/critic/perf/",
    "train/loss": "sft/loss",
    "train/grad_norm": "sft/grad_norm",
    "train/lr": "sft/lr",
    "train/global_tokens": "sft/tokens",
}


def append_metrics(path: Path, step: int, metrics: Mapping[str, Any]) -> None:
    """Append a step's line, flushed to disk; verl's own ``file`` logger truncates at a resume."""
    append_line(path, {"step": step, **plain(metrics)})


def plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics in order of name, as values of JSON."""
    return {name: _plain(value) for name, value in sorted(metrics.items())}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that trackers can draw: finite numbers."""
    return {name: value for name, value in metrics.items() if isinstance(value, int | float) and name != "step"}


def _plain(value: Any) -> Any:
    """Return a JSON value; None for a number that is not finite."""
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and not math.isfinite(item):
        return None
    return item if isinstance(item, int | float | str | bool | None) else str(item)


def family_name(name: str) -> str:
    """Return our name of a metric of verl; a name of ours is returned unchanged."""
    if name in RENAMED:
        return RENAMED[name]
    for prefix, ours in RENAMED.items():
        if prefix.endswith("/") and name.startswith(prefix):
            return ours + name.removeprefix(prefix)
    return name if name.partition("/")[0] in FAMILIES else OTHERS + name


def in_families(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics under our names; ``step`` keeps its name."""
    return {name if name == "step" else family_name(name): value for name, value in metrics.items()}
