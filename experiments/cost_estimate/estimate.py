"""``estimate=true``: what a run would make, play, store and take. Nothing is started."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape
from rich.table import Table

from config import cards
from config.errors import ConfigError
from config.lora import adapter_parameters
from config.machine import check_gpus
from config.method_settings import has_critic
from envs.games.catalogue import cache_root
from experiments.cost_estimate import duration
from experiments.cost_estimate.duration import Forecast, clock
from experiments.cost_estimate.memory import Place, demand, place, problems
from experiments.cost_estimate.needs import Needs, needs
from experiments.cost_estimate.profiles import GAMES, STEPS, Profile, machine, recorded
from experiments.evaluation.tables import plain_text
from records.models import checkpoint_cost, gpus
from records.models.shape import Shape, shape_of
from records.run_folder import run_name
from tasks.budget import allocate_budget, demonstration_price
from tasks.splits import cache_dir

GIB = 2**30
GAME_BYTES, EPISODE_BYTES = 400_000.0, 12_000.0  # TextWorld's w2-o3-q4 with the tiny model
MODEL_BYTES = 4  # a parameter of a plain model
USABLE = 0.95  # of a disk's free space
ARITHMETIC = "(arithmetic, not a measurement: docs/cluster.md)"
NOT_RECORDED = (
    "time: no run of this kind was recorded on this machine; every uninterrupted run with at least "
    f"{STEPS} RL steps and {GAMES} test games is"
)
UNKNOWN = "note: {what} is not known here, so memory was not checked: {how}"


def check(config: DictConfig, say: Callable[[str], None]) -> None:
    """Before a start: refuse what does not fit into memory, say what GPUs will need.

    Raises:
        ConfigError: it does not fit; the message ends with settings that do, if there are any.
    """
    shape, where, on_cpu = shape_of(config.model.path), place(config), config.trainer.device == "cpu"
    if shape is None or where is None:
        what = "the memory of this GPU" if shape else f"the size of model.path={config.model.path}"
        how = "set cluster.gpu_memory_gb" if shape else "docs/cluster.md has the arithmetic"
        return None if on_cpu else say(UNKNOWN.format(what=what, how=how))
    if found := problems(config, shape, where):
        raise does_not_fit(found)
    if not on_cpu:
        plan, card = allocate_budget(config), cards.here()
        flops = (card and card.flops) or gpus.GPUS[gpus.of_known_speed(where.name)].flops
        time = clock(duration.total(duration.on_gpu(config, plan, shape, flops * where.number)))
        needed = f"{demand(config, shape, where).peak() / gpus.GB:.0f} of a GPU's {where.name} needed"
        say(f"{needed}; {plan.steps} steps, {plan.episodes:,} episodes, about {time} {ARITHMETIC}")


def does_not_fit(found: Sequence[str]) -> ConfigError:
    return ConfigError(f"this does not fit: {'; '.join(found)}")


def make(config: DictConfig) -> tuple[str, list[str]]:
    """The text to print for this machine or for ``estimate_gpu``, and in a line each why it cannot run.

    Raises:
        Refusal, TaskError: no such GPU, or a model of unknown size on it; a split with too few games.
    """
    if not config.estimate_gpu:
        check_gpus(config)
    wanted, shape, where, profile = needs(config), shape_of(config.model.path), place(config), recorded(config)
    if config.estimate_gpu and shape is None:
        path = config.model.path
        raise gpus.GpuError(f"estimate_gpu needs a model of known size: model.path={path} has no config.json here")
    amounts = _table(run_name(config), "what", "how much", header=False)
    for row in _amounts(config, wanted, profile):
        amounts.add_row(*map(escape, row))  # rich takes [NAME] for a style
    found = []
    for key, folder, needed in _disk(config, wanted, shape, profile):
        free = shutil.disk_usage(next(part for part in (folder, *folder.parents) if part.exists())).free
        there = "" if config.estimate_gpu else f" of {free / GIB:.0f} in {folder}"
        amounts.add_row(f"disk: {key}", f"{needed / GIB:.2f} GiB{there}")
        if needed > USABLE * free and not config.estimate_gpu:
            found.append(f"disk: {needed / GIB:.1f} GiB needed{there}; use {key}=FOLDER on a larger disk")
    if shape and where:
        for row in _memory(config, shape, where):
            amounts.add_row(*row)
        found += problems(config, shape, where)
    times, note = _times(config, wanted, profile, shape)
    return plain_text([amounts, *times]) + note, found


def _table(title: str, *columns: str, header: bool = True) -> Table:
    table = Table(title=title, title_justify="left", show_header=header)
    for column in columns:
        table.add_column(column, justify="right" if column == "takes" else "left")
    return table


def _amounts(config: DictConfig, wanted: Needs, profile: Profile | None) -> Iterator[tuple[str, str]]:
    allocation = wanted.allocation
    yield "budget", _units(config, wanted)
    for games in wanted.games:
        yield f"games: {games.split}", f"{games.wanted} of {games.task}, {games.cached} of them made already"
    yield "demonstrations", str(allocation.demonstrations)
    if config.demos.experience:
        yield config.demos.experience, f"{config.demos.alternatives} actions drawn at each state of a demonstration"
    if allocation.steps:
        each = {**duration.tokens(config), **(profile.episode if profile else {})}
        tokens, sampled = (allocation.episodes * each[name] for name in ("tokens", "sampled"))
        yield "RL", f"{allocation.steps} steps x {allocation.episodes_per_step} = {allocation.episodes:,} episodes"
        yield "RL tokens", f"{tokens:,.0f}, {sampled:,.0f} of them sampled"
    if allocation.steps and (sampling := (config.get("filter") or {}).get("dynamic_sampling")):
        yield "RL at most", f"{sampling.batches} times as many: filter=[dynamic_sampling]"
    if wanted.validation:
        yield "validation", f"{wanted.validation:,} games played between steps"
    yield "evaluation", f"{wanted.models} models x {wanted.samples} = {wanted.models * wanted.samples:,} episodes"


def _units(config: DictConfig, wanted: Needs) -> str:
    allocation, budget = wanted.allocation, config.budget
    demonstrated, cost = float(allocation.demonstrations * demonstration_price(budget)), float(budget.episode_cost)
    by = {"games": demonstrated + allocation.games * cost, "rollouts": demonstrated + allocation.episodes * cost}
    both = ", ".join(f"{units:g} counting {way}" for way, units in by.items())
    return f"{allocation.units:g} of {budget.units:g} units, {allocation.unspent:g} left ({both})"


def _disk(
    config: DictConfig, wanted: Needs, shape: Shape | None, profile: Profile | None
) -> Iterator[tuple[str, Path, float]]:
    """Bytes that are needed in a folder, and the key that names it."""
    yield "env.cache_dir", cache_dir(config) or cache_root(), wanted.to_make * GAME_BYTES
    allocation = wanted.allocation
    episodes = allocation.demonstrations + allocation.episodes + wanted.models * wanted.samples
    run = episodes * (profile.episode["bytes"] if profile else EPISODE_BYTES)
    if shape:
        run += kept_checkpoints(config, allocation.steps) * _checkpoint(config, shape)
        run += bool(allocation.demonstrations) * MODEL_BYTES * shape.parameters
    yield "output_dir", Path(config.output_dir).expanduser().absolute(), run


def kept_checkpoints(config: DictConfig, steps: int) -> int:
    """Those that stay, and the one being written."""
    written, keep = -(-steps // int(config.trainer.save_freq)), config.trainer.max_actor_ckpt_to_keep
    return int(min(written, keep + 1) if keep and keep > 0 else written)


def _checkpoint(config: DictConfig, shape: Shape) -> float:
    return checkpoint_cost.size(shape.parameters, has_critic(config), adapter_parameters(config, shape))


def _memory(config: DictConfig, shape: Shape, where: Place) -> Iterator[tuple[str, str]]:
    needed, saved = demand(config, shape, where).peak(), _checkpoint(config, shape)
    yield f"memory of {where.name}", f"{needed / gpus.GB:.0f} of {where.memory / gpus.GB:.0f} GB"
    takes = f"{saved / gpus.GB:.1f} GB and {checkpoint_cost.seconds(saved):.0f} s"
    yield "a checkpoint", f"{takes}, after every {config.trainer.save_freq} steps"


def _times(config: DictConfig, wanted: Needs, profile: Profile | None, shape: Shape | None) -> tuple[list[Table], str]:
    """Predicted times, and what they rest on."""
    if config.estimate_gpu and shape:
        name, number = gpus.parse(config.estimate_gpu)
        card = gpus.of_known_speed(name)
        stages = duration.on_gpu(config, wanted.allocation, shape, gpus.GPUS[card].flops * number)
        like = "" if card == name else f"; time is that of {card}, the slowest card known of this size"
        return [_listed(stages)], f"arithmetic, not measured: docs/cost_estimate.md{like}"
    if profile is None:
        return [], NOT_RECORDED
    where = f"{machine()['cores']} cores of {machine()['cpu']} at a load of {profile.load:.1f}"
    note = f"rates: recorded by {profile.source} on {where}; they hold for a machine as busy as it was then"
    return [_listed(duration.forecast(config, wanted, profile))], note


def _listed(stages: list[Forecast]) -> Table:
    table = _table("predicted time", "stage", "takes", "made of")
    for stage in stages:
        table.add_row(stage.stage, clock(stage.seconds), stage.words)
    table.add_row("all", clock(duration.total(stages)), "")
    return table
