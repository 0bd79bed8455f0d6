"""The runs of a sweep (``-m sweep=NAME``), of a grid (``-m algo=ppo,grpo``), or a single one."""

import hashlib
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from omegaconf import DictConfig
from tqdm import tqdm

from turngrid.config.checks.check import check
from turngrid.config.compose import Composer, composer
from turngrid.config.errors import ConfigError
from turngrid.config.overrides import parse, quoted, typed
from turngrid.envs.utils.names import file_name
from turngrid.experiments.sweep.definition import (
    Axis,
    Definition,
    Layout,
    Scale,
    SweepRun,
    lacking,
    load,
    of_identity,
    part,
    points,
    scale_of,
)
from turngrid.experiments.sweep.record import Sweep
from turngrid.records.process.exit_codes import Refusal, say
from turngrid.records.run_folder import run_name
from turngrid.train.launch.one_run import WATCHED

DEFAULT_SCALE = "laptop"
TAKEN = ("seed", "dry_run", "fresh")  # keys of the launch; all other overrides go to its runs
TAKEN_BY_SWEEPS = (*TAKEN, "sweep", "scale")
ONLY = "only."
DIGITS = 8


@dataclass(frozen=True)
class Launch:
    """A sweep or a part of it, a grid, or one run, that is to be launched."""

    sweep: Sweep
    whole: tuple[Mapping[str, str], ...]  # the coordinates of all settings of the sweep
    configs: tuple[DictConfig, ...]  # of ``sweep.runs``
    dry_run: bool
    fresh: bool  # set the runs' folders aside first

    @property
    def folders(self) -> list[Path]:
        roots = (Path(config.output_dir).expanduser().absolute() for config in self.configs)
        return [root / run.folder for root, run in zip(roots, self.sweep.runs, strict=True)]

    @property
    def output_dir(self) -> Path | None:
        """Return where the launch is recorded; None for one run, or runs in several folders."""
        roots = {folder.parent for folder in self.folders}
        return roots.pop() if len(roots) == 1 and (self.sweep.scale or len(self.folders) > 1) else None

    @property
    def labels(self) -> list[str]:
        alone = len(self.whole) == 1 and not self.sweep.scale and len(self.folders) == 1
        return [run.folder if alone else run.label for run in self.sweep.runs]


def prepare_launch(overrides: Sequence[str], config_dir: str | None = None) -> Launch:
    """Expand a sweep or a grid, and compose and check each run.

    Raises:
        Refusal: there is no such sweep or scale.
        ConfigError: a run is refused; nothing has started.
    """
    # apart from the others, since ``sft=0,rl=1000`` is no value in Hydra's grammar
    parts = (text.removeprefix(ONLY).partition("=") for text in overrides if text.startswith(ONLY))
    only = {axis: values for axis, _, values in parts}
    words = parse([text for text in overrides if not text.startswith(ONLY)])
    flags = {key: is_true(words, key) for key in ("dry_run", "fresh")}  # first: composing takes seconds
    name = _one(words, "sweep", "")
    of_runs = [override for override in words if override.key_or_group not in (TAKEN_BY_SWEEPS if name else TAKEN)]
    several, single = ([o for o in of_runs if o.is_sweep_override() == swept] for swept in (True, False))
    definition = _of_file(name) if name else _grid(words, several)
    scale = _one(words, "scale", DEFAULT_SCALE) if name else ""
    chosen = scale_of(definition, scale)
    _refuse_keys_of_axes(chosen.axes, only, of_runs)
    axes = {o.key_or_group: _axis(o) for o in several}
    whole = points(chosen, _seeds(words, chosen.seeds), list(map(typed, single)), axes)
    chosen_points = part(whole, only)
    if definition.suite is not None:
        chosen_points = playable(chosen_points)
    with composer(config_dir) as composed:
        configs = compose_runs(composed, chosen_points)
    changed = of_identity([*single, *several])
    group = Path(name).stem or _grid_name(axes, changed)
    named = group if name or len(whole) > 1 else ""  # one run has its own name in trackers
    runs = [_with_folder(point, config, named) for point, config in zip(chosen_points, configs, strict=True)]
    about = (definition.title, definition.question, definition.published)
    suite, extra = {} if definition.suite and only else definition.suite, changed if name else []
    sweep = Sweep(group, scale, *about, chosen.note, chosen.layout, chosen.takeaways, extra, runs, suite)
    return Launch(sweep, tuple(point.coordinates for point in whole), tuple(configs), **flags)


def _refuse_keys_of_axes(axes: dict[str, Axis], only: Collection[str], words: Sequence[Override]) -> None:
    """Raise ConfigError if an override changes what an axis sets: labels would be wrong.

    Beside ``only.AXIS=VALUE`` the value's details can be changed, but not its options and task.
    """
    settings = ((axis, text) for axis, values in axes.items() for texts in values.values() for text in texts)
    taken = {text.partition("=")[0].lstrip("+~"): axis for axis, text in settings}
    taken = {key: axis for key, axis in taken.items() if axis not in only or "." not in key or key == "env.task"}
    if override := next((o for o in words if o.key_or_group in taken), None):
        axis = taken[override.key_or_group]
        use = f"use only.{axis}=VALUE or a sweep file of your own"
        raise ConfigError(f"{typed(override)}: this sweep's axis {axis} sets it; {use}")


def _grid_name(axes: Iterable[str], changed: Sequence[str]) -> str:
    """Return a grid's name, such as ``algo-lr-3f2a9c1e``; it is the same for other seeds."""
    digits = hashlib.sha256("\n".join(sorted(changed)).encode()).hexdigest()[:DIGITS]
    return file_name("-".join([*(axis.split(".")[-1] for axis in axes), digits]))


def _of_file(name: str) -> Definition:
    try:
        return load(name)
    except Refusal as error:
        raise ConfigError(str(error) if "sweep=" in str(error) else f"sweep={name}: {error}") from error


def _grid(words: Sequence[Override], several: Sequence[Override]) -> Definition:
    """Return the sweep of a command line without a file; the report lays it out."""
    varied = " ".join(f"{o.key_or_group.split('.')[-1]}={typed(o).partition('=')[2]}" for o in several)
    seeds = any(o.key_or_group == "seed" and o.is_sweep_override() for o in words)
    scale = Scale(axes={}, layout=Layout(rows={}, columns={}), seeds=())
    return Definition(varied or ("Seeds" if seeds else "One run"), "", {"": scale})


def playable(points: Sequence[SweepRun]) -> list[SweepRun]:
    """Return the runs whose environment can be played here; report the others.

    Raises:
        ConfigError: an extra is missing for each of them.
    """
    reasons = [lacking(point.overrides) for point in points]
    for reason in dict.fromkeys(filter(None, reasons)):
        say(f"note: skipped: {reason}")
    if all(reasons):
        raise ConfigError(f"no run of this sweep can start: {reasons[0]}")
    return [point for point, reason in zip(points, reasons, strict=True) if not reason]


def compose_runs(composed: Composer, runs: Sequence[SweepRun]) -> list[DictConfig]:
    """Return the configs of all runs. All are composed and checked first: a typo starts none.

    Raises:
        ConfigError: a run is refused; if there are several, the message begins with its label.
    """
    configs = []
    for run in tqdm(runs, "composing", leave=False, disable=not sys.stderr.isatty()):
        try:
            configs.append(composed(run.overrides))
            check(configs[-1])
        except ConfigError as error:
            raise ConfigError(f"{run.label}: {error}" if len(runs) > 1 else str(error)) from error
    return configs


def _with_folder(point: SweepRun, config: DictConfig, group: str) -> SweepRun:
    """Return a run with its folder and seed; in a group, also with its names in trackers."""
    run = msgspec.structs.replace(point, folder=run_name(config), seed=int(config.seed))
    names = dict(zip(WATCHED, (config.tracking.group or group, config.tracking.run_name or run.label), strict=True))
    texts = {key: name.replace("${", r"\${") for key, name in names.items()} if group else {}
    watched = [f"{key}={quoted(text)}" for key, text in texts.items()]
    return msgspec.structs.replace(run, overrides=[*run.overrides, *watched])


def _axis(override: Override) -> dict[str, list[str]]:
    """Return an axis of the command line: each value, without Hydra's quotes, and its override."""
    axis = {}
    for text in _values(override):
        given = f"{override.get_key_element()}={text}"
        value = parse([given])[0].value()
        axis[value if isinstance(value, str) else text] = [given]
    return axis


def _one(words: Sequence[Override], key: str, default: str) -> str:
    """Return the only value of a key, or the default."""
    of_key = [override for override in words if override.key_or_group == key]
    if of_key and of_key[-1].is_sweep_override():
        raise ConfigError(f"{typed(of_key[-1])}: one {key} at a time")
    return of_key[-1].get_value_element_as_str() if of_key else default


def is_true(words: Sequence[Override], key: str) -> bool:
    """Return a flag's value; raise ConfigError if it is neither true nor false."""
    if (word := _one(words, key, "false").lower()) not in ("true", "false"):
        raise ConfigError(f"{key}={word} must be true or false")
    return word == "true"


def _seeds(words: Sequence[Override], usual: Sequence[int]) -> list[int]:
    of_seed = [override for override in words if override.key_or_group == "seed"]
    try:
        return [int(text) for text in _values(of_seed[-1])] if of_seed else list(usual)
    except ValueError as error:
        raise ConfigError(f"{typed(of_seed[-1])}: seeds are whole numbers, as in seed=0,1,2") from error


def _values(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not isinstance(override.value(), ChoiceSweep | RangeSweep):
        raise ConfigError(f"{typed(override)}: write the values out, as in {override.key_or_group}=A,B")
    return list(override.sweep_string_iterator())
