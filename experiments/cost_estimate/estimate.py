"""``estimate=true``: what a run would make, play, store and take, before anything of it is paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.table import Table

from config.lora import adapter_parameters
from config.method_settings import has_critic
from experiments.cost_estimate import calibrate, duration, gpu
from experiments.cost_estimate.duration import Forecast
from experiments.cost_estimate.memory import GIB, Headroom, disk, memory
from experiments.cost_estimate.needs import Needs, needs
from experiments.cost_estimate.throughput import ThroughputProfile, machine
from experiments.evaluation.tables import plain_text
from records.models import checkpoint_cost, gpus
from records.models.shape import Shape, shape_of
from records.run_folder import run_name
from tasks.budget import allocate_budget, demonstration_price

MINUTE, HOUR = 60, 3600


@dataclass(frozen=True)
class CostEstimate:
    """``text`` to print; ``problems`` say in a line each why it cannot run as it is."""

    text: str
    problems: tuple[str, ...]


def make(config: DictConfig, say: Callable[[str], None] = print) -> CostEstimate:
    """Plan for this machine, or for ``estimate_gpu``. Calibrates, after saying so, where no run of this kind was
    measured here.

    Raises:
        GpuError, TaskError, StageFailed: no such GPU; a split with too few games; a calibration that ended badly.
    """
    on = gpus.parse(config.estimate_gpu) if config.estimate_gpu else None
    wanted, shape = needs(config), shape_of(config.model.path)
    if on and shape is None:
        raise gpus.GpuError(
            f"estimate_gpu needs a model of known size: model.path={config.model.path} has no config.json here"
        )
    profile = calibrate.known(config)
    headrooms = disk(config, wanted, shape, profile)
    if on and shape:
        amounts = _amounts(config, wanted, profile, headrooms)
        return _on_gpus(config, wanted, on, shape, amounts)
    headrooms += memory(config, shape, float(machine()["memory_gib"]))
    problems = tuple(headroom.problem for headroom in headrooms if headroom.problem)
    if profile is None and not problems:
        if config.trainer.device == "cuda" and not Path("/dev/nvidiactl").exists():
            words = f"cluster={config.cluster.name} needs GPUs and there are none here"
            raise gpus.GpuError(f"{words}: add estimate_gpu=H100x8 to see what it needs of their memory")
        say(_calibrating(config))
        profile = calibrate.calibrate(config)
    amounts = _amounts(config, wanted, profile, headrooms)
    if profile is None:
        return CostEstimate(plain_text([amounts]), problems)
    stages = duration.forecast(config, wanted, profile, int(machine()["cores"]))
    text = plain_text([amounts, _times(stages)])
    where = f"{machine()['cores']} cores of {machine()['cpu']} at a load of {profile.load:.1f}"
    return CostEstimate(
        f"{text}rates: {profile.source}, on {where}; they hold for a machine as busy as it was then", problems
    )


def _calibrating(config: DictConfig) -> str:
    """What is measured first, and how long about."""
    less = calibrate.short(config)
    wanted, part = needs(less), allocate_budget(less)
    parts = [f"{part.demonstrations} demonstrations and SFT"] if part.demonstrations else []
    parts += [f"{part.steps} RL steps of {part.episodes_per_step} episodes"] if part.steps else []
    each = f"one of TextWorld's w2-o3-q4 in {duration.GAME_CORE_SECONDS} s of a core"
    games = f"; {wanted.to_make} games of {config.env.name} are made first, {each}" if wanted.to_make else ""
    return (
        "no run of this kind was measured on this machine: a short one is made now, once, with "
        f"{', '.join(parts)}, and {wanted.samples} test episodes of each of {wanted.models} models; with model=tiny that takes about 2 "
        f"minutes on two free cores, with a larger model more{games}"
    )


def _on_gpus(config: DictConfig, wanted: Needs, on: tuple[str, int], shape: Shape, amounts: Table) -> CostEstimate:
    card = gpus.gpu(on[0])
    saved = checkpoint_cost.size(shape.parameters, has_critic(config), adapter_parameters(config, shape))
    needed = f"{gpu.memory_bytes(config, on, shape) / gpus.GB:.0f} of {card.memory / gpus.GB:.0f} GB"
    amounts.add_row(f"memory of a {on[0]}", needed)
    space = f"{saved / gpus.GB:.0f} GB and {checkpoint_cost.seconds(saved):.0f} s"
    amounts.add_row("a checkpoint", f"{space}, after every {config.trainer.save_freq} steps")
    tables, assumptions = [amounts], gpu.ASSUMPTIONS
    if card.flops:
        tables.append(_times(duration.on_gpu(config, wanted.allocation, shape, card.flops * on[1])))
        assumptions = f"{assumptions}\n{duration.ASSUMPTIONS}"
    return CostEstimate(plain_text(tables) + assumptions, tuple(gpu.problems(config, on, shape)))


def _amounts(
    config: DictConfig, wanted: Needs, profile: ThroughputProfile | None, headrooms: Sequence[Headroom]
) -> Table:
    table = Table(title=run_name(config), title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("how much")
    table.add_row("budget", _units(config, wanted))
    for games in wanted.games:
        table.add_row(f"games: {games.split}", f"{games.wanted} of {games.task}, {games.cached} of them made already")
    for row in _samples(config, wanted, profile):
        table.add_row(*row)
    for headroom in headrooms:
        free = "" if config.estimate_gpu else f" of {headroom.free / GIB:.0f} in {headroom.place}"
        table.add_row(headroom.what, f"{headroom.needed / GIB:.2f} GiB{free}")
    return table


def _units(config: DictConfig, wanted: Needs) -> str:
    allocation, budget = wanted.allocation, config.budget
    demonstrated, cost = float(allocation.demonstrations * demonstration_price(budget)), float(budget.episode_cost)
    by = {"games": demonstrated + allocation.games * cost, "rollouts": demonstrated + allocation.episodes * cost}
    both = ", ".join(f"{units:g} counting {way}" for way, units in by.items())
    return f"{allocation.units:g} of {budget.units:g} units, {allocation.unspent:g} left ({both})"


def _samples(config: DictConfig, wanted: Needs, profile: ThroughputProfile | None) -> list[tuple[str, str]]:
    allocation = wanted.allocation
    tokens, sampled = duration.tokens(config)
    if profile:
        tokens, sampled = profile.tokens or tokens, profile.sampled or sampled
    rows = [("demonstrations", str(allocation.demonstrations))]
    if config.demos.experience:
        drawn = config.demos.alternatives
        rows.append((config.demos.experience, f"{drawn} actions drawn at each state of a demonstration"))
    if allocation.steps:
        rows += [
            ("RL", f"{allocation.steps} steps x {allocation.episodes_per_step} = {allocation.episodes:,} episodes"),
            ("RL tokens", f"{allocation.episodes * tokens:,.0f}, {allocation.episodes * sampled:,.0f} of them sampled"),
        ]
    if allocation.steps and (sampling := (config.get("filter") or {}).get("dynamic_sampling")):
        rows.append(("RL at most", f"{sampling.batches} times as many: filter=[dynamic_sampling]"))
    if wanted.validation:
        rows.append(("validation", f"{wanted.validation:,} games played between steps"))
    samples = f"{wanted.models} models x {wanted.samples} = {wanted.models * wanted.samples:,} episodes"
    return [*rows, ("evaluation", samples)]


def _times(stages: Sequence[Forecast]) -> Table:
    table = Table(title="predicted time", title_justify="left")
    table.add_column("stage")
    table.add_column("takes", justify="right")
    table.add_column("made of")
    for stage in stages:
        table.add_row(stage.stage, clock(stage.seconds), stage.words)
    table.add_row("all", clock(sum(stage.seconds for stage in stages)), "")
    return table


def clock(seconds: float) -> str:
    """``45 s``, ``4.6 min``, ``12.3 h``."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.1f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"
