"""How fast runs are on this machine: read from each run that ended, kept in the cache for later estimates."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, OmegaConf

from envs.games.catalogue import cache_root
from envs.utils.files import write_whole
from experiments.evaluation.result import FILE as RESULT
from records.damage import DISCARDED
from records.metrics import read_metrics
from records.resume import RlFolder
from records.stages import stage_ended, stage_seconds
from rollouts.store import read_episodes
from tasks.budget import allocate_budget
from tasks.splits import read_tasks

STEPS, GAMES = 3, 64  # RL steps and test games of the shortest run that is recorded
# Keys that may differ between runs of the same pace
FREE = (
    *("seed", "budget", "demos", "curriculum", "recipe", "output_dir", "fresh", "estimate", "estimate_gpu", "dry_run"),
    *("tracking", "cluster.slurm", "trainer.logger", "env.cache_dir"),
    *("eval.games", "eval.samples_per_game", "eval.seed", "eval.temperatures"),
)


@dataclass(frozen=True)
class Pace:
    """Seconds of a stage: ``start`` once, and ``each`` for each of its steps or episodes."""

    start: float
    each: float


@dataclass(frozen=True)
class Profile:
    """What runs of one kind recorded; a stage that they did not have is missing.

    Attributes:
        source: the last run's name. load: mean load of the machine in that run's last minute.
        paces: of ``games``, ``demonstrations``, ``sft`` and ``rl`` (steps), and ``evaluation`` (episodes).
        episode: bytes of an RL episode, its ``tokens``, and those of them that are ``sampled``.
    """

    source: str
    load: float
    paces: Mapping[str, Pace]
    episode: Mapping[str, float]


@cache
def machine() -> dict[str, Any]:
    """What a pace depends on, besides what else is running."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in cpus if line.startswith("model name"))
    return {"cpu": next(names, platform.processor()), "cores": len(os.sched_getaffinity(0))}


def profile_file(config: DictConfig) -> Path:
    """The same file for all runs of the same pace on this machine."""
    settings: Any = OmegaConf.to_container(config, resolve=True)
    for key in FREE:
        *above, last = key.split(".")
        (settings[above[0]] if above else settings).pop(last, None)
    text = json.dumps([machine(), settings], sort_keys=True, default=str)
    return cache_root() / "throughput" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def recorded(config: DictConfig) -> Profile | None:
    """What runs of this kind recorded on this machine; None if there was none."""
    try:
        found = json.loads(profile_file(config).read_text(encoding="utf-8"))
        return Profile(**{**found, "paces": {name: Pace(**pace) for name, pace in found["paces"].items()}})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or one of another version
        return None


def record(config: DictConfig, folder: Path) -> None:
    """Keep the paces of a run that has just ended, if it was neither interrupted, damaged nor too short."""
    attempts = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    whole = len(attempts) == 1 and (folder / RESULT).exists() and not (folder / DISCARDED).exists()
    if whole and config.eval.games >= GAMES and allocate_budget(config).steps >= STEPS:
        with suppress(OSError, ValueError, KeyError):  # a run that ended well must not fail for its clocks
            save(config, measure(folder))


def save(config: DictConfig, profile: Profile) -> None:
    """Stages that this run did not have stay as an earlier run recorded them."""
    earlier = recorded(config) or profile
    merged = Profile(profile.source, profile.load, {**earlier.paces, **profile.paces}, profile.episode)
    write_whole(profile_file(config), json.dumps(asdict(merged), indent=2) + "\n")


def measure(folder: Path) -> Profile:
    """The paces of a run that ended and was never interrupted."""
    seconds, rl = stage_seconds(folder), RlFolder(folder)
    counted = {"demonstrations": [folder / "episodes" / "demonstrations.jsonl"]}
    counted["evaluation"] = list((folder / "evaluation").rglob("*.jsonl"))
    paces = {stage: pace for stage, files in counted.items() if (pace := _counted(files, seconds.get(stage)))}
    if made := _games_made(folder, seconds["games"]):
        paces["games"] = Pace(0.0, seconds["games"] / made)
    clocked = {"sft": folder / "sft" / "metrics.jsonl", "rl": rl.metrics}
    paces |= {stage: pace for stage, file in clocked.items() if (pace := _clocked(file, seconds.get(stage)))}
    return Profile(folder.name, os.getloadavg()[0], paces, _episode(sorted(rl.episodes.glob("*.jsonl"))))


def _games_made(folder: Path, seconds: float) -> int:
    """Games whose files are no older than the stage; 0 if they are less than half of the run's games."""
    files = [Path(task.game_file) for path in (folder / "tasks").glob("*.jsonl") for task in read_tasks(path)]
    begin = stage_ended(folder)["games"] - seconds
    made = sum(file.stat().st_mtime >= begin for file in files)
    return made if made >= len(files) / 2 else 0


def _counted(files: list[Path], seconds: float | None) -> Pace | None:
    """The pace of a stage that writes a line an episode."""
    lines = sum(1 for path in files if path.exists() for _ in path.open(encoding="utf-8"))
    return Pace(0.0, seconds / lines) if seconds and lines else None


def _clocked(metrics: Path, seconds: float | None) -> Pace | None:
    """The pace of a stage that logs its clock after each step; the rest of its seconds is its start."""
    clock = [line["timing/since_start"] for line in read_metrics(metrics) if "timing/since_start" in line]
    if seconds is None or len(clock) < 2:
        return None
    each = (clock[-1] - clock[0]) / (len(clock) - 1)
    return Pace(max(0.0, seconds - each * len(clock)), each)


def _episode(files: list[Path]) -> dict[str, float]:
    episodes = [episode for file in files for episode in read_episodes(file)]
    sampled = fmean(sum(len(turn.action_ids) for turn in episode.turns) for episode in episodes)
    rest = fmean(len(episode.prompt_ids) + sum(len(turn.context_ids) for turn in episode.turns) for episode in episodes)
    size = sum(file.stat().st_size for file in files) / len(episodes)
    return {"bytes": size, "tokens": sampled + rest, "sampled": sampled}
