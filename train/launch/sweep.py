"""The runs of a sweep (``-m sweep=NAME``) or a grid (``-m algo=ppo,grpo``)."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep
from omegaconf import DictConfig
from tqdm import tqdm

from turngrid.config.checks.check import check
from turngrid.config.compose import Composer, composer
from turngrid.config.errors import ConfigError
from turngrid.config.overrides import parse, search_paths, typed
from turngrid.envs.utils.names import file_name
from turngrid.experiments.suite.extras import lacking
from turngrid.experiments.sweep.definition import Layout, SweepError, SweepRun, load, part, points, scale_of
from turngrid.experiments.sweep.record import Sweep
from turngrid.records.process.exit_codes import say
from turngrid.records.run_folder import outside_identity, run_name
from turngrid.train.launch.one_run import plain

DEFAULT_SCALE = "laptop"
TAKEN = ("sweep", "scale", "seed", "dry_run", "fresh")  # keys of the launch; all other overrides go to its runs
ONLY = "only."
YES, NO = ("true", "yes", "y", "on", "1"), ("false", "no", "n", "off", "0")
DIGITS = 8


# ---- sweeps


@dataclass(frozen=True)
class Launch:
    """A sweep, or a part of it, that is to be launched."""

    sweep: Sweep
    whole: tuple[Mapping[str, str], ...]  # the coordinates of all settings of the sweep
    configs: tuple[DictConfig, ...]  # of ``sweep.runs``
    output_dir: Path
    dry_run: bool
    fresh: bool  # set the runs' folders aside first


def sweep_asked_for(overrides: Sequence[str]) -> bool:
    rest, _ = _split_only(overrides)
    return any(override.key_or_group == "sweep" for override in parse(rest))


def prepare_launch(overrides: Sequence[str], config_dir: str | None = None) -> Launch:
    """Expand the sweep, compose each run and check it.

    Raises:
        SweepError: there is no such sweep or scale.
        ConfigError: a run is refused; nothing has started.
    """
    rest, only = _split_only(overrides)
    words = parse([text for text in rest if not text.startswith("hydra")])
    flags = {"dry_run": is_true(words, "dry_run"), "fresh": is_true(words, "fresh")}  # composing takes seconds
    name, scale = _one(words, "sweep", ""), _one(words, "scale", DEFAULT_SCALE)
    try:
        definition = load(name)
    except SweepError as error:
        raise ConfigError(str(error) if "sweep=" in str(error) else f"sweep={name}: {error}") from error
    chosen = scale_of(definition, scale)
    of_runs = [override for override in words if override.key_or_group not in TAKEN]
    several, single = ([o for o in of_runs if o.is_sweep_override() == swept] for swept in (True, False))
    axes = {o.key_or_group: {text: [f"{o.get_key_element()}={text}"] for text in _values(o)} for o in several}
    whole = points(chosen, _seeds(words, chosen.seeds), list(map(typed, single)), axes)
    chosen_points = part(whole, only)
    if definition.suite is not None:
        chosen_points = playable(chosen_points)
    wanted = [[*search_paths(overrides), *point.overrides] for point in chosen_points]
    with composer(config_dir) as composed:
        configs = compose_runs(composed, wanted, [point.label for point in chosen_points])
    name = Path(name).stem
    runs = [_recorded(name, point, config) for point, config in zip(chosen_points, configs, strict=True)]
    changing = [typed(o) for o in (*single, *several) if not _is_outside(o.key_or_group)]
    about = (definition.title, definition.question, definition.published)
    suite = {} if definition.suite and only else definition.suite
    sweep = Sweep(name, scale, *about, chosen.note, chosen.layout, chosen.takeaways, changing, runs, suite)
    output_dir = Path(configs[0].output_dir).expanduser().absolute()
    return Launch(sweep, tuple(point.coordinates for point in whole), tuple(configs), output_dir, **flags)


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


def compose_runs(
    composed: Composer, runs: Sequence[Sequence[str]], labels: Sequence[str] = (), checked: bool = True
) -> list[DictConfig]:
    """Return the configs of all runs. All are composed first, so that a typo starts none.

    Raises:
        ConfigError: a run is refused; the message begins with its label.
    """
    configs = []
    for number, run in enumerate(tqdm(runs, "composing", leave=False, disable=not sys.stderr.isatty())):
        try:
            configs.append(composed(run))
            if checked:
                check(configs[-1])
        except ConfigError as error:
            raise ConfigError(f"{labels[number]}: {error}" if labels else str(error)) from error
    return configs


def _recorded(name: str, point: SweepRun, config: DictConfig) -> SweepRun:
    """Return a run with its folder; its overrides contain its name in trackers."""
    watched = [f"tracking.group='{config.tracking.group or name}'", f"tracking.run_name='{point.label}'"]
    return msgspec.structs.replace(point, overrides=[*point.overrides, *watched], folder=run_name(config))


# ---- grids


def grid(overrides: Sequence[str], runs: Sequence[Sequence[str]], configs: Sequence[DictConfig]) -> Sweep | None:
    """Return the record of a grid; its axes are the keys with several values, except the seed.

    Returns:
        None if there is one run, or if the runs write to several folders.
    """
    if len(runs) < 2 or len({config.output_dir for config in configs}) > 1:
        return None
    several = [o for o in parse(overrides) if o.is_sweep_override() and o.key_or_group != "seed"]
    varied = {o.key_or_group: typed(o).partition("=")[2] for o in several}
    name = _grid_name(overrides, list(varied))
    title = " ".join(f"{_short(axis)}={values}" for axis, values in varied.items()) or "Seeds"
    layout = Layout(rows={}, columns={})  # the report fills it, once the stages are known
    of_grid = [_grid_run(run, config, list(varied)) for run, config in zip(runs, configs, strict=True)]
    return Sweep(name, "", title, "", None, "", layout, (), [], of_grid)


def _grid_name(overrides: Sequence[str], axes: Sequence[str]) -> str:
    """Return a name such as ``algo-lr-3f2a9c1e``, the same for other seeds of the grid."""
    ignored = ("seed", "fresh", "dry_run")
    changing = sorted(
        typed(o)
        for o in parse(overrides)
        if o.key_or_group not in ignored and not o.key_or_group.startswith("hydra") and not _is_outside(o.key_or_group)
    )
    digits = hashlib.sha256("\n".join(changing).encode()).hexdigest()[:DIGITS]
    return file_name("-".join([*map(_short, axes), digits]))


def _short(axis: str) -> str:
    return axis.split(".")[-1]


def _grid_run(overrides: Sequence[str], config: DictConfig, axes: Sequence[str]) -> SweepRun:
    values = {override.key_or_group: plain(override).partition("=")[2] for override in parse(overrides)}
    own = [text for text in overrides if not text.lstrip("+~").startswith("hydra")]
    return SweepRun({axis: values[axis] for axis in axes}, int(config.seed), own, run_name(config))


# ---- words of the command line


def _split_only(overrides: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Split off ``only.AXIS=TEXT``, since ``sft=0,rl=1000`` is no value in Hydra's grammar."""
    own = [text for text in overrides if text.startswith(ONLY)]
    named = [text.removeprefix(ONLY).partition("=") for text in own]
    return [text for text in overrides if text not in own], {axis: values for axis, _, values in named}


def _one(words: Sequence[Override], key: str, default: str) -> str:
    """Return the only value of a key, or the default."""
    of_key = [override for override in words if override.key_or_group == key]
    if of_key and of_key[-1].is_sweep_override():
        raise ConfigError(f"{typed(of_key[-1])}: one {key} at a time")
    return of_key[-1].get_value_element_as_str() if of_key else default


def is_true(words: Sequence[Override], key: str) -> bool:
    """Return a flag's value; raise ConfigError if it is neither true nor false."""
    word = _one(words, key, "false").lower()
    if word not in YES + NO:
        raise ConfigError(f"{key}={word} must be true or false")
    return word in YES


def _seeds(words: Sequence[Override], usual: Sequence[int]) -> list[int]:
    """Return the seeds, or the usual ones."""
    of_seed = [override for override in words if override.key_or_group == "seed"]
    try:
        return [int(text) for text in _values(of_seed[-1])] if of_seed else list(usual)
    except ValueError as error:
        raise ConfigError(f"{typed(of_seed[-1])}: seeds are whole numbers, as in seed=0,1,2") from error


def _is_outside(key: str) -> bool:
    """Return whether a key is not part of a run's identity, such as ``cluster.name``."""
    return key in outside_identity() or key.split(".")[0] in outside_identity()


def _values(override: Override) -> list[str]:
    """Return the listed values of an override."""
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    if not isinstance(override.value(), ChoiceSweep | RangeSweep):
        raise ConfigError(f"{typed(override)}: write the values out, as in {override.key_or_group}=A,B")
    return list(override.sweep_string_iterator())
