"""``estimate=true``: predict a run's games, episodes, disk, memory and time without starting it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape
from rich.table import Table

from turngrid.config import cards
from turngrid.config.errors import ConfigError
from turngrid.config.machine import check_gpus
from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.cost_estimate import gpu_time
from turngrid.experiments.cost_estimate.amounts import Amounts, amounts
from turngrid.experiments.cost_estimate.gpu_time import checkpoint_bytes, gpu_seconds
from turngrid.experiments.cost_estimate.memory import Devices, demand, devices, problems
from turngrid.experiments.cost_estimate.throughput import GAMES, STEPS, Profile, machine, recorded, total
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.records.models import checkpoint_cost, gpus
from turngrid.records.models.shape import Shape, shape_of
from turngrid.records.run_folder import run_name
from turngrid.tasks.budget import allocate_budget, demonstration_price
from turngrid.tasks.splits import cache_dir

GIB = 2**30
GAME_BYTES, EPISODE_BYTES = 400_000.0, 12_000.0  # TextWorld's w2-o3-q4 with the tiny model
MODEL_BYTES = 4  # a parameter of a plain model
USABLE = 0.95  # of a disk's free space
ARITHMETIC = "arithmetic, not measured: docs/cost_estimate.md"
NOT_RECORDED = (
    "time: no run of this kind was recorded on this machine; every uninterrupted run with at least "
    f"{STEPS} RL steps and {GAMES} test games is"
)


def check(config: DictConfig, say: Callable[[str], None]) -> None:
    """Check that the run fits into memory before it starts, and print the estimate for GPUs.

    Raises:
        ConfigError: the run does not fit; the message ends with settings that fit, if there are
            any.
    """
    shape, where, on_cpu = shape_of(config.model.path), devices(config), config.trainer.device == "cpu"
    if shape is None or where is None:
        unknown = f"model.path={config.model.path}: its size is not known" if shape is None else "GPU memory: not known"
        how = "docs/cluster.md has the arithmetic" if shape is None else "use cluster.gpu_memory_gb=NUMBER"
        return None if on_cpu else say(f"note: {unknown}, so memory was not checked; {how}")
    if reasons := problems(config, shape, where):
        raise does_not_fit(reasons)
    if not on_cpu:
        allocation, card = allocate_budget(config), cards.here()
        flops = (card and card.flops) or gpus.GPUS[gpus.of_known_speed(where.name)].flops
        time = clock(total(gpu_seconds(config, allocation, shape, flops * where.number)))
        needed = f"{demand(config, shape, where).peak() / gpus.GB:.0f} of a GPU's {where.name} needed"
        say(f"{needed}; {allocation.steps} steps, {allocation.episodes:,} episodes, about {time} ({ARITHMETIC})")


def does_not_fit(reasons: Sequence[str]) -> ConfigError:
    return ConfigError(f"this does not fit: {'; '.join(reasons)}")


def make(config: DictConfig) -> tuple[str, list[str]]:
    """Return the printed estimate and the reasons why the run does not fit.

    The estimate is for ``estimate_gpu`` if it is set, else for this machine.

    Raises:
        Refusal: ``estimate_gpu`` is unknown, or the model's size is not known.
        TaskError: a task has too few games in a split.
    """
    if not config.estimate_gpu:
        check_gpus(config)
    wanted, shape, where, profile = amounts(config), shape_of(config.model.path), devices(config), recorded(config)
    if config.estimate_gpu and shape is None:
        path = config.model.path
        raise gpus.GpuError(f"estimate_gpu needs a model of known size: model.path={path} has no config.json here")
    table = Table(title=run_name(config), title_justify="left", show_header=False)
    reasons: list[str] = []
    for row in _amounts(config, wanted, profile):
        table.add_row(*map(escape, row))  # rich takes [NAME] for a style
    for key, folder, needed in disk(config, wanted, shape, profile):
        free = shutil.disk_usage(next(part for part in (folder, *folder.parents) if part.exists())).free
        there = "" if config.estimate_gpu else f" of {free / GIB:.0f} in {folder}"
        table.add_row(f"disk: {key}", f"{needed / GIB:.2f} GiB{there}")
        if needed > USABLE * free and not config.estimate_gpu:
            reasons.append(f"disk: {needed / GIB:.1f} GiB needed{there}; use {key}=FOLDER on a larger disk")
    if shape and where:
        for row in _memory(config, shape, where):
            table.add_row(*row)
        reasons += problems(config, shape, where)
    times, note = _times(config, wanted, profile, shape)
    return plain_text([table, *times]) + note, reasons


def _amounts(config: DictConfig, wanted: Amounts, profile: Profile | None) -> Iterator[tuple[str, str]]:
    allocation = wanted.allocation
    yield "budget", _units(config, wanted)
    for games in wanted.games:
        yield f"games: {games.split}", f"{games.wanted} of {games.task}, {games.cached} of them made already"
    yield "demonstrations", str(allocation.demonstrations)
    if config.demos.experience:
        yield config.demos.experience, f"{config.demos.alternatives} actions drawn at each state of a demonstration"
    if allocation.steps:
        each = {**gpu_time.tokens(config), **(profile.episode if profile else {})}
        tokens, sampled = (allocation.episodes * each[name] for name in ("tokens", "sampled"))
        yield "RL", f"{allocation.steps} steps x {allocation.episodes_per_step} = {allocation.episodes:,} episodes"
        yield "RL tokens", f"{tokens:,.0f}, {sampled:,.0f} of them sampled"
    if allocation.steps and (sampling := (config.get("filter") or {}).get("dynamic_sampling")):
        yield "RL at most", f"{sampling.batches} times as many: filter=[dynamic_sampling]"
    if wanted.validation:
        yield "validation", f"{wanted.validation:,} games between steps"
    yield "evaluation", f"{wanted.models} models x {wanted.samples} = {wanted.models * wanted.samples:,} episodes"


def _units(config: DictConfig, wanted: Amounts) -> str:
    allocation, budget = wanted.allocation, config.budget
    demonstrated, cost = float(allocation.demonstrations * demonstration_price(budget)), float(budget.episode_cost)
    by = {"games": demonstrated + allocation.games * cost, "rollouts": demonstrated + allocation.episodes * cost}
    both = ", ".join(f"{units:g} counting {way}" for way, units in by.items())
    return f"{allocation.units:g} of {budget.units:g} units, {allocation.unspent:g} left ({both})"


def disk(
    config: DictConfig, wanted: Amounts, shape: Shape | None, profile: Profile | None
) -> Iterator[tuple[str, Path, float]]:
    """Return the key that names a folder, the folder, and the bytes that it needs."""
    yield "env.cache_dir", cache_dir(config) or cache_root(), wanted.to_make * GAME_BYTES
    allocation = wanted.allocation
    episodes = allocation.demonstrations + allocation.episodes + wanted.models * wanted.samples
    run = episodes * (profile.episode["bytes"] if profile else EPISODE_BYTES)
    if shape:
        run += _kept_checkpoints(config, allocation.steps) * checkpoint_bytes(config, shape)
        run += bool(allocation.demonstrations) * MODEL_BYTES * shape.parameters
    yield "output_dir", Path(config.output_dir).expanduser().absolute(), run


def _kept_checkpoints(config: DictConfig, steps: int) -> int:
    """Count the checkpoints on disk at the same time, with the one being written."""
    written, keep = -(-steps // int(config.trainer.save_freq)), config.trainer.max_actor_ckpt_to_keep
    return int(min(written, keep + 1) if keep and keep > 0 else written)


def _memory(config: DictConfig, shape: Shape, where: Devices) -> Iterator[tuple[str, str]]:
    needed, saved = demand(config, shape, where).peak(), checkpoint_bytes(config, shape)
    yield f"memory of {where.name}", f"{needed / gpus.GB:.0f} of {where.memory / gpus.GB:.0f} GB"
    takes = f"{saved / gpus.GB:.1f} GB and {checkpoint_cost.seconds(saved):.0f} s"
    yield "a checkpoint", f"{takes}, after every {config.trainer.save_freq} steps"


def _times(
    config: DictConfig, wanted: Amounts, profile: Profile | None, shape: Shape | None
) -> tuple[list[Table], str]:
    """Return the predicted times and their source."""
    if config.estimate_gpu and shape:
        name, number = gpus.parse(config.estimate_gpu)
        card = gpus.of_known_speed(name)
        like = "" if card == name else f"; time is that of {card}, the slowest card known of this size"
        seconds = gpu_seconds(config, wanted.allocation, shape, gpus.GPUS[card].flops * number)
        return [_listed(seconds, {})], f"{ARITHMETIC}{like}"
    if profile is None:
        return [], NOT_RECORDED
    each = {stage: f"{count:,} {unit}" for stage, (count, unit) in wanted.units.items()}
    each |= {stage: f"{each[stage]} x {profile.seconds[stage]:.3g} s" for stage in each if stage in profile.seconds}
    note = f"recorded by {profile.source} on {machine()}; making games is not counted"
    return [_listed(profile.forecast(wanted), each)], note


def _listed(seconds: Mapping[str, float | None], each: Mapping[str, str]) -> Table:
    table = Table("stage", "takes", "made of", title="predicted time", title_justify="left")
    table.columns[1].justify = "right"
    for stage, value in {**seconds, "all": total(seconds)}.items():
        table.add_row(stage, clock(value), each.get(stage, ""))
    return table


def clock(seconds: float | None) -> str:
    """Return ``45 s``, ``4.6 min``, ``12.3 h``, or ``not recorded``."""
    if seconds is None:
        return "not recorded"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
