"""Throughput that runs recorded on this machine: seconds a unit of each stage."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.envs.games.catalogue import cache_root
from turngrid.envs.utils.files import write_whole
from turngrid.experiments.cost_estimate.amounts import Amounts, amounts
from turngrid.experiments.evaluation.result import FILE as RESULT
from turngrid.records.damage import DISCARDED
from turngrid.records.stages import stage_seconds

STEPS, GAMES = 3, 64  # RL steps and test games of the shortest run that is recorded
# Keys that may differ between runs of the same throughput
FREE = (
    *("seed", "budget", "demos", "curriculum", "recipe", "output_dir", "fresh", "estimate", "estimate_gpu", "dry_run"),
    *("tracking", "cluster.slurm", "trainer.logger", "env.cache_dir"),
    *("eval.games", "eval.samples_per_game", "eval.seed", "eval.temperatures"),
)
Seconds = dict[str, float]  # of one unit by stage: a demonstration, an SFT or RL step, an evaluation episode


def forecast(wanted: Amounts, each: Seconds) -> dict[str, float | None]:
    """Return the seconds of each stage of a run, and of ``all``; None if one was never recorded."""
    times = {stage: count * each[stage] if stage in each else None for stage, (count, _) in wanted.units.items()}
    known = [time for time in times.values() if time is not None]
    return {**times, "all": sum(known) if len(known) == len(times) else None}


def machine() -> str:
    """Return the processor and the number of cores."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in cpus if line.startswith("model name"))
    return f"{len(os.sched_getaffinity(0))} cores of {next(names, platform.processor())}"


def record_file(config: DictConfig) -> Path:
    """Return the record's path; runs with the same throughput on this machine share it."""
    settings: Any = OmegaConf.to_container(config, resolve=True)
    for key in FREE:
        *above, last = key.split(".")
        (settings[above[0]] if above else settings).pop(last, None)
    text = json.dumps([machine(), settings], sort_keys=True, default=str)
    return cache_root() / "throughput" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def recorded(config: DictConfig) -> Seconds:
    """Return what runs of this kind recorded on this machine; {} if there is none."""
    file = record_file(config)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def record(config: DictConfig, folder: Path) -> None:
    """Record a run that has ended, unless it was interrupted, damaged or too short.

    Stages that this run did not have keep their earlier values.
    """
    attempts = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    whole = len(attempts) == 1 and (folder / RESULT).exists() and not (folder / DISCARDED).exists()
    wanted, took = amounts(config), stage_seconds(folder)
    if whole and config.eval.games >= GAMES and wanted.allocation.steps >= STEPS:
        each = {stage: took[stage] / count for stage, (count, _) in wanted.units.items() if stage in took}
        with suppress(OSError):  # a record that cannot be written must not fail a finished run
            write_whole(record_file(config), json.dumps(recorded(config) | each, indent=2) + "\n")
