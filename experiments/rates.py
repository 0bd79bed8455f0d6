"""How fast this machine runs a kind of run: read off a run's folder, kept in the cache by machine and kind."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, OmegaConf

from experiments import demonstrations
from experiments.metrics import read_metrics
from experiments.resume import RlFolder
from experiments.run_folder import identity
from experiments.stages import stage_ended, stage_seconds
from experiments.tasks import read_tasks
from rollouts.episode import Episode
from rollouts.store import read_episodes

# What a run may change and still run at the same rates
NORMAL = {
    "seed": 0,
    "budget": None,
    "demos": None,
    "curriculum": None,
    "recipe": None,
    "sweep": None,
    "eval.games": None,
    "eval.plays": None,
    "eval.seed": None,
    "eval.temperatures": None,
    "trainer.save_freq": None,
}


@dataclass(frozen=True)
class Rates:
    """Seconds, bytes and tokens of one kind of run on one machine; None where the run that was measured had no such part.

    Attributes:
        source: which run was measured. ``measured``: when (Unix seconds). ``load``: of the machine then, a minute's mean.
        game_seconds: a game made, all cores at work. game_bytes: its files.
        demonstrations_seconds: the stage's start; each demonstration adds ``demonstration_seconds``.
        sft_start, sft_step: seconds before and after the steps, and of one step.
        rl_start, rl_step, rl_save: the same, and of one checkpoint.
        evaluation_start, evaluation_play: the same, and of one game played by one model.
        tokens, sampled, turns: of an RL episode, on average (tokens: prompt, actions and observations).
        episode_bytes, checkpoint_bytes, model_bytes: on disk.
    """

    source: str
    measured: float
    load: float
    game_bytes: float
    evaluation_start: float
    evaluation_play: float
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
    turns: float | None = None
    episode_bytes: float = 0.0
    checkpoint_bytes: float = 0.0
    model_bytes: float = 0.0


# ---- where they are kept


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
    plain = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    for key, value in NORMAL.items():
        OmegaConf.update(plain, key, value, force_add=True)
    text = json.dumps([machine(), identity(plain), config.cluster.name, config.env.workers], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def rates_file(config: DictConfig, cache_root: Path) -> Path:
    return cache_root / "rates" / f"{config.env.name}-{config.model.name}-{config.algo.name}-{kind(config)}.json"


def load(path: Path) -> Rates | None:
    return Rates(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def save(rates: Rates, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(rates), indent=2) + "\n", encoding="utf-8")
    draft.replace(path)


# ---- read off a run


def measure(config: DictConfig, folder: Path, source: str) -> Rates:
    """The rates of a run that ended and was never interrupted."""
    seconds = stage_seconds(folder)
    parts = (
        _games(folder, seconds),
        _demonstrations(folder, seconds, config),
        _sft(folder, seconds),
        _rl(folder, seconds),
    )
    evaluation = _evaluation(folder, seconds["evaluation"])
    return Rates(
        source, time.time(), os.getloadavg()[0], **evaluation, **{k: v for part in parts for k, v in part.items()}
    )


def _games(folder: Path, seconds: dict[str, float]) -> dict[str, float | None]:
    """A game counts as made by this run if its file is no older than the stage."""
    files = [Path(task.game_file) for path in (folder / "tasks").glob("*.jsonl") for task in read_tasks(path)]
    begin = stage_ended(folder)["games"] - seconds["games"]
    made = sum(file.stat().st_mtime >= begin for file in files)
    size = fmean(sum(part.stat().st_size for part in file.parent.iterdir()) for file in files)
    return {"game_seconds": seconds["games"] / made if made >= len(files) / 2 else None, "game_bytes": size}


def _demonstrations(folder: Path, seconds: dict[str, float], config: DictConfig) -> dict[str, float]:
    path = demonstrations.episodes_file(folder)
    if "demonstrations" not in seconds or not path.exists():
        return {}
    played = list(read_episodes(path))
    each = fmean(sum(turn.env_seconds for turn in episode.turns) for episode in played) / int(config.env.workers)
    start = max(0.0, seconds["demonstrations"] - each * len(played))
    return {"demonstrations_seconds": start, "demonstration_seconds": each}


def _sft(folder: Path, seconds: dict[str, float]) -> dict[str, float]:
    clock = [line["timing_s/since_start"] for line in read_metrics(folder / "sft" / "metrics.jsonl")]
    if "sft" not in seconds or len(clock) < 2:
        return {}
    step = (clock[-1] - clock[0]) / (len(clock) - 1)
    return {"sft_start": max(0.0, seconds["sft"] - step * len(clock)), "sft_step": step}


def _rl(folder: Path, seconds: dict[str, float]) -> dict[str, float]:
    """A checkpoint is written after its step was logged, so its seconds lie between two steps."""
    rl = RlFolder(folder)
    lines = [line for line in read_metrics(rl.metrics) if "timing_s/step" in line]
    if len(lines) < 2:
        return {}
    steps = [line["timing_s/step"] for line in lines]
    clock = [line["timing_s/since_start"] for line in lines]
    between = [
        max(0.0, after - before - step) for (before, after), step in zip(pairwise(clock), steps[1:], strict=True)
    ]
    saves = sorted(between)[-_saves(folder, len(steps)) :]
    outside = seconds["rl"] - (clock[-1] - clock[0]) - steps[0]
    files = sorted(rl.episodes.glob("*.jsonl"))
    episodes = [episode for file in files for episode in read_episodes(file)]
    return {
        "rl_start": max(0.0, outside),
        "rl_step": fmean(steps),
        "rl_save": fmean(saves),
        **_episodes(episodes),
        "episode_bytes": sum(file.stat().st_size for file in files) / len(episodes),
        "checkpoint_bytes": float(_size(rl.model(rl.saved_step()).parents[1])),
        "model_bytes": float(_size(rl.model(rl.saved_step()))),
    }


def _saves(folder: Path, steps: int) -> int:
    config = OmegaConf.load(RlFolder(folder).config)
    return max(1, (steps - 1) // int(config.trainer.save_freq))


def _episodes(episodes: Sequence[Episode]) -> dict[str, float]:
    actions = [sum(len(turn.action_ids) for turn in episode.turns) for episode in episodes]
    context = [sum(len(turn.context_ids) for turn in episode.turns) for episode in episodes]
    prompts = [len(episode.prompt_ids) for episode in episodes]
    turns = fmean(len(episode.turns) for episode in episodes)
    return {
        "tokens": fmean(map(sum, zip(prompts, actions, context, strict=True))),
        "sampled": fmean(actions),
        "turns": turns,
    }


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _evaluation(folder: Path, seconds: float) -> dict[str, float]:
    """Each file is written when its model has played; the first also waits for the process to start."""
    files = sorted((folder / "evaluation").rglob("*.jsonl"), key=lambda file: file.stat().st_mtime)
    plays = [sum(1 for _ in file.open(encoding="utf-8")) for file in files]
    span = files[-1].stat().st_mtime - files[0].stat().st_mtime
    each = span / sum(plays[1:]) if len(files) > 1 else seconds / sum(plays)
    return {"evaluation_start": max(0.0, seconds - each * sum(plays)), "evaluation_play": each}
