"""The rates of a run, read off its folder: stage clocks, metrics, and the files that it left."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from omegaconf import DictConfig, OmegaConf

from experiments.cost_estimate.throughput import ThroughputProfile
from records.metrics import read_metrics
from records.resume import RlFolder
from records.stages import stage_ended, stage_seconds
from rollouts.episode import Episode
from rollouts.store import read_episodes
from tasks import demonstrations
from tasks.splits import read_tasks


def measure(config: DictConfig, folder: Path, source: str) -> ThroughputProfile:
    """The rates of a run that ended and was never interrupted."""
    seconds = stage_seconds(folder)
    made = _games(folder, seconds) | _demonstrations(folder, seconds, config) | _sft(folder, seconds)
    rates = {**made, **_rl(folder, seconds), **_evaluation(folder, seconds["evaluation"])}
    return ThroughputProfile(source, time.time(), os.getloadavg()[0], **rates)


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
    step = min(
        turn.env_seconds for episode in played for turn in episode.played_turns
    )  # one that waited for no other game
    each = step * fmean(len(episode.played_turns) for episode in played) / int(config.env.workers)
    start = max(0.0, seconds["demonstrations"] - each * len(played))
    return {"demonstrations_seconds": start, "demonstration_seconds": each}


def _sft(folder: Path, seconds: dict[str, float]) -> dict[str, float]:
    clock = [line["timing/since_start"] for line in read_metrics(folder / "sft" / "metrics.jsonl")]
    if "sft" not in seconds or len(clock) < 2:
        return {}
    step = (clock[-1] - clock[0]) / (len(clock) - 1)
    return {"sft_start": max(0.0, seconds["sft"] - step * len(clock)), "sft_step": step}


def _rl(folder: Path, seconds: dict[str, float]) -> dict[str, float]:
    """A checkpoint is written after its step was logged, so its seconds lie between two steps. What the first step takes
    longer than the others belongs to the start."""
    rl = RlFolder(folder)
    lines = [line for line in read_metrics(rl.metrics) if "timing/step" in line]
    if len(lines) < 2:
        return {}
    steps = [line["timing/step"] for line in lines]
    clock = [line["timing/since_start"] for line in lines]
    others = [line.get("timing/testing", 0.0) + step for line, step in zip(lines[1:], steps[1:], strict=True)]
    between = [max(0.0, after - before - other) for (before, after), other in zip(pairwise(clock), others, strict=True)]
    saved = max(1, (len(steps) - 1) // int(OmegaConf.load(rl.config).trainer.save_freq))
    step = fmean(steps[1:])
    outside = seconds["rl"] - (clock[-1] - clock[0]) - step
    files = sorted(rl.episodes.glob("*.jsonl"))
    episodes = [episode for file in files for episode in read_episodes(file)]
    return {
        "rl_start": max(0.0, outside),
        "rl_step": step,
        "rl_save": fmean(sorted(between)[-saved:]),
        **_episodes(episodes),
        "episode_bytes": sum(file.stat().st_size for file in files) / len(episodes),
        "checkpoint_bytes": float(_size(rl.model(rl.saved_step()).parents[1])),
        "model_bytes": float(_size(rl.model(rl.saved_step()))),
    }


def _episodes(episodes: Sequence[Episode]) -> dict[str, float]:
    actions = [sum(len(turn.action_ids) for turn in episode.turns) for episode in episodes]
    context = [sum(len(turn.context_ids) for turn in episode.turns) for episode in episodes]
    prompts = [len(episode.prompt_ids) for episode in episodes]
    return {"tokens": fmean(map(sum, zip(prompts, actions, context, strict=True))), "sampled": fmean(actions)}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _evaluation(folder: Path, seconds: float) -> dict[str, float]:
    """Each file is written when its model has played; the first also waits for the process to start."""
    files = sorted((folder / "evaluation").rglob("*.jsonl"), key=lambda file: file.stat().st_mtime)
    samples = [sum(1 for _ in file.open(encoding="utf-8")) for file in files]
    span = files[-1].stat().st_mtime - files[0].stat().st_mtime
    each = span / sum(samples[1:]) if len(files) > 1 else seconds / sum(samples)
    return {"evaluation_start": max(0.0, seconds - each * sum(samples)), "evaluation_sample": each}
