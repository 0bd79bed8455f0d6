"""``estimate=true``: predict a run's games, episodes, disk, memory and time without starting it."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from turngrid.config.errors import ConfigError
from turngrid.config.machine import check_gpus, checkpoint_bytes
from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.cost_estimate.amounts import GAMES, STEPS, Amounts, amounts, forecast, machine, recorded
from turngrid.experiments.cost_estimate.memory import Devices, demand, devices, problems
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.experiments.tables import duration
from turngrid.records.models.gpus import GB
from turngrid.records.models.shape import Shape, shape_of
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.run_folder import run_name
from turngrid.tasks.run import Run

GIB = 2**30
GAME_BYTES, EPISODE_BYTES = 400_000.0, 12_000.0  # TextWorld's w2-o3-q4 with the tiny model
MODEL_BYTES = 4  # a parameter of a plain model
USABLE = 0.95  # of a disk's free space
NOT_RECORDED = (
    "time: not known, as no run of this kind was recorded on this machine; "
    f"a run is recorded if it has {STEPS} RL steps and {GAMES} test games or more and is not interrupted"
)


def check(run: Run, say: Callable[[str], None]) -> None:
    """Check that the run fits into memory before it starts, and print what it needs of a GPU.

    Raises:
        ConfigError: the run does not fit; the message ends with settings that fit, if any.
    """
    shape, where, on_cpu = shape_of(run.model.path), devices(run), run.config.trainer.device == "cpu"
    if shape is None or where is None:
        unknown = f"model.path={run.model.path}: its size is not known" if shape is None else "GPU memory: not known"
        how = "docs/cost_estimate.md has the arithmetic" if shape is None else "use cluster.gpu_memory_gb=NUMBER"
        return say(f"note: {unknown}, so memory was not checked; {how}")
    if reasons := problems(run, shape, where):
        raise does_not_fit(reasons)
    if not on_cpu:
        say(f"{demand(run, shape, where).peak() / GB:.0f} of a GPU's {where.name} needed")


def does_not_fit(reasons: Sequence[str]) -> ConfigError:
    return ConfigError(f"this does not fit: {'; '.join(reasons)}")


def make(run: Run) -> tuple[str, list[str]]:
    """Return the printed estimate and the reasons why the run does not fit.

    The estimate is for ``estimate_gpu`` if it is set, else for this machine.

    Raises:
        Refusal: ``estimate_gpu`` is unknown, or the model's size is not known.
        TaskError: a task has too few games in a split.
    """
    here, wanted, shape = not run.config.estimate_gpu, amounts(run), shape_of(run.model.path)
    if here:
        check_gpus(run.config)
    elif shape is None:
        path = run.model.path
        raise Refusal(f"estimate_gpu needs a model of known size: model.path={path} has no config.json here")
    where, rows, reasons = devices(run), [*_amounts(run, wanted)], []
    for key, folder, needed in disk(run, wanted, shape):
        free = shutil.disk_usage(next(part for part in (folder, *folder.parents) if part.exists())).free
        there = f" of {free / GIB:.0f} in {folder}" if here else ""
        rows.append((f"disk: {key}", f"{needed / GIB:.2f} GiB{there}"))
        if here and needed > USABLE * free:
            reasons.append(f"disk: {needed / GIB:.1f} GiB needed{there}; use {key}=FOLDER on a larger disk")
    if shape and where:
        rows += _memory(run, shape, where)
        reasons += problems(run, shape, where)
    each = recorded(run) if here else {}
    rows += _times(forecast(wanted, each)) if each else []
    table = Table(title=run_name(run.config), title_justify="left", show_header=False)
    for row in rows:
        table.add_row(*map(escape, row))  # rich takes [NAME] for a style
    note = f"time: as recorded on {machine()}, without making games" if each else NOT_RECORDED * here
    return plain_text([table]) + note, reasons


def _memory(run: Run, shape: Shape, where: Devices) -> Iterator[tuple[str, str]]:
    needed, saved = demand(run, shape, where).peak(), checkpoint_bytes(run.config, shape)
    yield f"memory of {where.name}", f"{needed / GB:.0f} of {where.memory / GB:.0f} GB"
    yield "a checkpoint", f"{saved / GB:.1f} GB, after every {run.config.trainer.save_freq} steps"


def _times(seconds: dict[str, float | None]) -> Iterator[tuple[str, str]]:
    for stage, time in seconds.items():
        yield f"time: {stage}", "not recorded" if time is None else duration(time)


def _amounts(run: Run, wanted: Amounts) -> Iterator[tuple[str, str]]:
    allocation = wanted.allocation
    yield "budget", f"{allocation.units:g} of {run.budget.units:g} units, {allocation.unspent:g} left"
    for games in wanted.games:
        yield f"games: {games.split}", f"{games.wanted} of {games.task}, {games.cached} of them made already"
    yield "demonstrations", str(allocation.demonstrations)
    if run.demos.experience:
        yield run.demos.experience, f"{run.demos.alternatives} actions drawn at each state of a demonstration"
    if allocation.steps:
        yield "RL", f"{allocation.steps} steps x {allocation.episodes_per_step} = {allocation.episodes:,} episodes"
        for name, method in run.methods.of("filter", 1).items():
            if batches := getattr(method, "batches", 0):
                yield "RL at most", f"{batches} times as many: filter=[{name}]"
    if wanted.validation:
        yield "validation", f"{wanted.validation:,} games between steps"
    yield "evaluation", f"{wanted.models} models x {wanted.samples} = {wanted.models * wanted.samples:,} episodes"


def disk(run: Run, wanted: Amounts, shape: Shape | None) -> Iterator[tuple[str, Path, float]]:
    """Return the key that names a folder, the folder, and the bytes that it needs."""
    missing = sum(games.wanted - games.cached for games in wanted.games)
    yield "env.cache_dir", run.cache_dir or cache_root(), missing * GAME_BYTES
    allocation = wanted.allocation
    needed = EPISODE_BYTES * (allocation.demonstrations + allocation.episodes + wanted.models * wanted.samples)
    if shape:
        trainer = run.config.trainer
        saved, keep = -(-allocation.steps // int(trainer.save_freq)), trainer.max_actor_ckpt_to_keep
        at_once = int(min(saved, keep + 1) if keep else saved)  # with the one that is being written
        after_sft = MODEL_BYTES * shape.parameters if allocation.demonstrations else 0
        needed += at_once * checkpoint_bytes(run.config, shape) + after_sft
        kept = (form.keeps(step) for form in run.forms.values() for step in range(1, allocation.steps + 1))
        needed += MODEL_BYTES * shape.parameters * sum(kept)
    yield "output_dir", Path(run.config.output_dir).expanduser().absolute(), needed
