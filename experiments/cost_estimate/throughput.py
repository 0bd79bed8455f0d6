"""Throughput that runs recorded on this machine: seconds a unit of each stage."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class Profile:
    """What the last run of one kind recorded; a stage that no such run had is missing.

    Attributes:
        source: the run's name.
        seconds: of one unit of a stage: a demonstration, an SFT or RL step, an evaluation episode.
    """

    source: str
    seconds: Mapping[str, float]

    def forecast(self, wanted: Amounts) -> dict[str, float | None]:
        """Return the seconds of each stage of a run; None for a stage that was never recorded."""
        return {
            stage: count * self.seconds[stage] if stage in self.seconds else None
            for stage, (count, _) in wanted.units.items()
        }


def total(seconds: Mapping[str, float | None]) -> float | None:
    """Return the sum of the stages' seconds; None if a stage is None."""
    known = [value for value in seconds.values() if value is not None]
    return sum(known) if len(known) == len(seconds) else None


def machine() -> str:
    """Return the processor and the number of cores."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in cpus if line.startswith("model name"))
    return f"{len(os.sched_getaffinity(0))} cores of {next(names, platform.processor())}"


def profile_file(config: DictConfig) -> Path:
    """Return the profile's path; runs with the same throughput on this machine share it."""
    settings: Any = OmegaConf.to_container(config, resolve=True)
    for key in FREE:
        *above, last = key.split(".")
        (settings[above[0]] if above else settings).pop(last, None)
    text = json.dumps([machine(), settings], sort_keys=True, default=str)
    return cache_root() / "throughput" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def recorded(config: DictConfig) -> Profile | None:
    """Return the profile for this kind of run on this machine; None if there is none."""
    try:
        return Profile(**json.loads(profile_file(config).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # no file, or a file of another version
        return None


def record(config: DictConfig, folder: Path) -> None:
    """Save the profile of a run that has ended, unless it was interrupted, damaged or too short."""
    attempts = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    whole = len(attempts) == 1 and (folder / RESULT).exists() and not (folder / DISCARDED).exists()
    wanted, took = amounts(config), stage_seconds(folder)
    if whole and config.eval.games >= GAMES and wanted.allocation.steps >= STEPS:
        each = {stage: took[stage] / count for stage, (count, _) in wanted.units.items() if stage in took}
        with suppress(OSError):  # a profile that cannot be written must not fail a finished run
            save(config, Profile(folder.name, each))


def save(config: DictConfig, profile: Profile) -> None:
    """Write a profile. Stages that this run did not have keep their earlier values."""
    earlier = recorded(config) or profile
    merged = Profile(profile.source, {**earlier.seconds, **profile.seconds})
    write_whole(profile_file(config), json.dumps(asdict(merged), indent=2) + "\n")
