"""How fast this machine runs a kind of run, kept in the cache by machine and kind
(``experiments.cost_estimate.profiles_of_runs`` reads them off)."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from envs.whole import write_whole
from records.run_folder import identity

# What a run may change and still run at the same rates
NORMAL = {
    "seed": 0,
    "budget": None,
    "demos": None,
    "curriculum": None,
    "recipe": None,
    "eval.games": None,
    "eval.samples_per_game": None,
    "eval.seed": None,
    "eval.temperatures": None,
    "trainer.save_freq": None,
}


@dataclass(frozen=True)
class ThroughputProfile:
    """Seconds, bytes and tokens of one kind of run on one machine; None where the run that was measured had no such part.

    Attributes:
        source: which run was measured. ``measured``: when (Unix seconds). ``load``: of the machine then, a minute's mean.
        game_seconds: a game made, all cores at work. game_bytes: its files.
        demonstrations_seconds: the stage's start; each demonstration adds ``demonstration_seconds``.
        sft_start, sft_step: seconds before and after the steps, and of one step.
        rl_start, rl_step, rl_save: the same, and of one checkpoint.
        evaluation_start, evaluation_sample: the same, and of one game played by one model.
        tokens, sampled: of an RL episode, on average (tokens: prompt, actions and observations).
        episode_bytes, checkpoint_bytes, model_bytes: on disk.
    """

    source: str
    measured: float
    load: float
    game_bytes: float
    evaluation_start: float
    evaluation_sample: float
    game_seconds: float | None = None
    demonstrations_seconds: float | None = None
    demonstration_seconds: float | None = None
    sft_start: float | None = None
    sft_step: float | None = None
    rl_start: float | None = None
    rl_step: float | None = None
    rl_save: float | None = None
    tokens: float | None = None
    sampled: float | None = None
    episode_bytes: float = 0.0
    checkpoint_bytes: float = 0.0
    model_bytes: float = 0.0


@cache
def machine() -> dict[str, Any]:
    """What a rate depends on, besides what else is running."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next(
        (line.partition(":")[2].strip() for line in cpus if line.startswith("model name")), platform.processor()
    )
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gib": round(pages / 2**30, 1)}


def kind(config: DictConfig) -> str:
    """The same for runs whose rates are the same: 8 hex digits, of the machine and of the config without ``NORMAL``."""
    said: Any = OmegaConf.to_container(config)
    known = json.dumps({**said, "seed": 0}, sort_keys=True, default=str)
    if known not in _kinds:
        plain = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
        for key, value in NORMAL.items():
            OmegaConf.update(plain, key, value, force_add=True)
        text = json.dumps([machine(), identity(plain), config.cluster.name, config.env.workers], sort_keys=True)
        _kinds[known] = hashlib.sha256(text.encode()).hexdigest()[:8]
    return _kinds[known]


_kinds: dict[str, str] = {}  # a sweep asks for each of its seeds


def profile_file(config: DictConfig, cache_root: Path) -> Path:
    return cache_root / "throughput" / f"{_names(config)}-{kind(config)}.json"


def is_measured(config: DictConfig, cache_root: Path) -> bool:
    """Whether there may be rates for it: of its environment, model and algorithm. Asked first, since a kind takes a while."""
    return any((cache_root / "throughput").glob(f"{_names(config)}-*.json"))


def _names(config: DictConfig) -> str:
    return f"{config.env.name}-{config.model.name}-{config.algo.name}"


def load(path: Path) -> ThroughputProfile | None:
    """None where there are none, or none that can be read: they are measured again."""
    try:
        return ThroughputProfile(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None
    except (ValueError, TypeError):
        return None


def save(profile: ThroughputProfile, path: Path) -> None:
    write_whole(path, json.dumps(asdict(profile), indent=2) + "\n")
