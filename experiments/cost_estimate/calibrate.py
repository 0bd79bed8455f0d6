"""A short run of the same kind, for its rates: at most 64 demonstrations, 3 RL steps at full batch, 64 games per
evaluation set.

It goes through the very stages of a real run, so whatever a model, an algorithm or an environment costs is in it. Its
games are the first of those that the run will play; nothing else of it is kept.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from envs.catalogue import cache_root
from experiments.cost_estimate.profiles_of_runs import measure
from experiments.cost_estimate.throughput import ThroughputProfile, is_measured, load, machine, profile_file, save
from experiments.evaluation.result import FILE as RESULT
from records.files.damage import DAMAGED
from tasks.budget import allocate_budget

DEMONSTRATIONS, STEPS, GAMES = 64, 3, 64


def known(config: DictConfig) -> ThroughputProfile | None:
    """The rates of this kind of run here, if they hold all that its plan needs.

    None also where the machine was crowded then and is no more, and with ``fresh=true``.
    """
    profile = load(profile_file(config, cache_root())) if is_measured(config, cache_root()) else None
    outdated = profile and crowded(profile.load) and os.getloadavg()[0] < profile.load / 2
    return profile if profile and _covers(profile, config) and not outdated and not config.fresh else None


def crowded(busy: float) -> bool:
    """A load that no run makes alone: its processes keep the cores busy, and seldom three of them wait for one."""
    return busy > 3 * int(machine()["cores"])


def _covers(profile: ThroughputProfile, config: DictConfig) -> bool:
    allocation = allocate_budget(config)
    return (not allocation.demonstrations or profile.sft_step is not None) and (
        not allocation.steps or profile.rl_step is not None
    )


def calibrate(config: DictConfig) -> ThroughputProfile:
    """Run it, keep its rates, remove the rest.

    Raises:
        StageFailed: one of its stages ended badly.
    """
    from experiments.stages import pipeline

    folder = cache_root() / "throughput"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="calibration-", ignore_cleanup_errors=True) as place:
        pipeline.run(short(config), Path(place))
        return _keep(config, measure(short(config), Path(place), "calibration"))


def learn(config: DictConfig, folder: Path) -> None:
    """Keep the rates of a run that has just ended, if it was never interrupted nor damaged and is not shorter than a calibration."""
    attempts = (folder / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    allocation = allocate_budget(config)
    damaged = any(folder.rglob(f"*.{DAMAGED}-*"))
    if (
        len(attempts) == 1
        and not damaged
        and (folder / RESULT).exists()
        and allocation.steps >= STEPS
        and config.eval.games >= GAMES
    ):
        with suppress(OSError, ValueError, KeyError):  # a run that has ended well must not fail for its clocks
            _keep(config, measure(config, folder, folder.name))


def _keep(config: DictConfig, profile: ThroughputProfile) -> ThroughputProfile:
    """What this run did not measure stays as an earlier one measured it, which stays whole if only now it is crowded."""
    path = profile_file(config, cache_root())
    earlier = load(path) or profile
    if crowded(profile.load) and not crowded(earlier.load) and _covers(earlier, config):
        return profile
    before, now = asdict(earlier), asdict(profile)
    kept = ThroughputProfile(**{name: before[name] if value is None else value for name, value in now.items()})
    save(kept, path)
    return kept


def short(config: DictConfig) -> DictConfig:
    """The same run with less of everything but a step's episodes; a copy."""
    result = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    with open_dict(result):
        result.budget = {**result.budget, **_budget(config)}
        if 0 < allocate_budget(config).demonstrations <= int(config.model.sft.batch_size):
            result.model.sft.epochs = max(2, int(config.model.sft.epochs))  # one step has no rate
        result.eval = {**result.eval, "games": min(int(config.eval.games), GAMES), "samples_per_game": 1}
        result.curriculum = {**(result.get("curriculum") or {}), "name": "none", "phases": None, "horizon": None}
        result.trainer.logger = ["console"]
        result.trainer.save_freq = 1
        result.output_dir = os.devnull
    return result


def _budget(config: DictConfig) -> dict[str, object]:
    """Prices in whole numbers that buy just so much."""
    allocation, prompts = allocate_budget(config), int(config.data.train_batch_size)
    demonstrations, games = min(allocation.demonstrations, DEMONSTRATIONS), STEPS * prompts if allocation.steps else 0
    share = 0.0 if not demonstrations else 0.5 if games else 1.0
    units = {0.0: games, 0.5: 2 * demonstrations * games, 1.0: demonstrations}[share]
    prices = {0.0: (1, 1), 0.5: (games, demonstrations), 1.0: (1, 1)}[share]
    counted = {"count": "games", "rl_steps": STEPS, "rl_epochs": None}
    return {"units": units, "sft_share": share, "demo_cost": prices[0], "episode_cost": prices[1], **counted}
