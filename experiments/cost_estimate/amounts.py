"""What a run will need (games, steps, episodes), and the throughput that runs recorded here."""

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from turngrid.envs.games.catalogue import TooFewGames, cache_root
from turngrid.envs.utils.files import write_whole
from turngrid.experiments.evaluation.result import FILE as RESULT
from turngrid.records.damage import DISCARDED
from turngrid.records.stages import stage_seconds
from turngrid.tasks.budget import Allocation, with_games
from turngrid.tasks.evaluation_sets import own, samples_of, tested
from turngrid.tasks.mixture import shares, task_weights
from turngrid.tasks.run import Run
from turngrid.tasks.splits import games_wanted, validation_samples, what_to_set

STEPS, GAMES = 3, 64  # RL steps and test games of the shortest run that is recorded
# Keys that may differ between runs of the same throughput
FREE = (
    *("seed", "budget", "demos.run", "curriculum", "recipe", "output_dir", "fresh", "estimate", "estimate_gpu"),
    *("dry_run", "tracking", "health", "cluster.slurm", "trainer.logger", "env.cache_dir"),
    *("eval.games", "eval.samples_per_game", "eval.seed", "eval.temperatures"),
)
Seconds = dict[str, float]  # of one unit by stage: a demonstration, an SFT or RL step, an evaluation episode


@dataclass(frozen=True)
class Games:
    """Training or test games of one task: the number wanted and the number in the cache."""

    split: str
    task: str
    wanted: int
    cached: int


@dataclass(frozen=True)
class Amounts:
    """What a run will need."""

    allocation: Allocation
    games: tuple[Games, ...]
    models: int  # base, after SFT, after RL, and after RL without a library
    samples: int  # evaluation episodes of each model
    validation: int  # episodes of all validations during RL
    units: dict[str, int]  # stage -> demonstrations, SFT or RL steps, or evaluation episodes


def amounts(run: Run) -> Amounts:
    """Count what a run will need; raise TaskError if a task's split has too few games."""
    with what_to_set():
        games = tuple(_games(run))
    allocation = with_games(run.allocation, run.budget, sum(part.wanted for part in games if part.split == "train"))
    demonstrations, steps, sft = allocation.demonstrations, allocation.steps, run.model.sft
    both = bool(run.config.get("library")) and run.eval.library in (None, "both")
    models = 1 + bool(demonstrations) + bool(steps) * (1 + both)
    of_sets = sum(len(opponents) * each for opponents, each in (samples_of(run, env) for env, _ in tested(run)))
    samples = run.eval.games * len(run.eval.temperatures) * of_sets
    units = {
        "demonstrations": demonstrations,
        "experience": demonstrations * bool(run.demos.experience),
        "sft": int(sft.epochs) * -(-demonstrations // int(sft.batch_size)),
        "rl": steps,
        "evaluation": models * samples,
    }
    needed = {stage: count for stage, count in units.items() if count}
    return Amounts(allocation, games, models, samples, validation_samples(run), needed)


def _games(run: Run) -> Iterator[Games]:
    """Count in the order in which a run lists games: cached games of earlier splits are avoided."""
    others: set[str] = set()  # in the evaluation sets, each of which avoids nothing
    for env, task in tested(run):
        if (env, task) != own(run):
            yield _split(run.of_environment(env), task, "test", run.eval.games, seen := set())
            others |= seen
    seen = set()
    for split, count in games_wanted(run).items():
        for task, share in shares(task_weights(run.config.env), count).items():
            if share:
                yield _split(run, task, split, share, seen)
        seen |= others


def _split(run: Run, task: str, split: str, wanted: int, seen: set[str]) -> Games:
    """Count the games of a task that are not ``seen``, and add the cached ones to these."""
    cached, missing = run.catalogue.outlook(task, split, wanted, run.reward_name, seen)
    seen.update(cached)
    most = len(cached) + missing
    if 0 < most < wanted and split == "train" and not run.env.tasks:
        wanted = most  # they are revisited
    if most < wanted:
        message = f"{task}: split {split} has at most {most} games of the {wanted} asked for"
        raise TooFewGames(message, split, most, run.environment.more_games)
    return Games(split, task, wanted, len(cached))


def forecast(wanted: Amounts, each: Seconds) -> dict[str, float | None]:
    """Return the seconds of each stage of a run, and of ``all``; None if one was never recorded."""
    times = {stage: count * each[stage] if stage in each else None for stage, count in wanted.units.items()}
    known = [time for time in times.values() if time is not None]
    return {**times, "all": sum(known) if len(known) == len(times) else None}


def machine() -> str:
    """Return the processor and the number of cores."""
    cpus = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in cpus if line.startswith("model name"))
    return f"{len(os.sched_getaffinity(0))} cores of {next(names, platform.processor())}"


def record_file(run: Run) -> Path:
    """Return the record's path; runs with the same throughput on this machine share it."""
    settings: Any = OmegaConf.to_container(run.config, resolve=True)
    for key in FREE:
        *above, last = key.split(".")
        (settings[above[0]] if above else settings).pop(last, None)
    text = json.dumps([machine(), settings], sort_keys=True, default=str)
    return cache_root() / "throughput" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def recorded(run: Run) -> Seconds:
    """Return what runs of this kind recorded on this machine; {} if there is none."""
    return json.loads(file.read_text(encoding="utf-8")) if (file := record_file(run)).exists() else {}


def record(run: Run) -> None:
    """Record a run that has ended, unless it was interrupted, damaged or too short.

    Stages that this run did not have keep their earlier values.
    """
    folder = run.folder
    attempts = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    whole = len(attempts) == 1 and (folder / RESULT).exists() and not (folder / DISCARDED).exists()
    wanted, took = amounts(run), stage_seconds(folder)
    if whole and run.eval.games >= GAMES and wanted.allocation.steps >= STEPS:
        each = {stage: took[stage] / count for stage, count in wanted.units.items() if stage in took}
        with suppress(OSError):  # a record that cannot be written must not fail a finished run
            write_whole(record_file(run), json.dumps(recorded(run) | each, indent=2) + "\n")
