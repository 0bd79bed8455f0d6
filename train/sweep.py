"""``-m sweep=NAME``: from one command line to the runs of a sweep, composed and checked before the first one starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from experiments.run_folder import outside_identity, run_name
from experiments.sweep import record
from experiments.sweep.definition import Axis, Scale, SweepError, load, scale_of
from experiments.sweep.expansion import Point, points
from experiments.sweep.record import Sweep, SweepRun
from experiments.sweep.status import State, state
from train.compose import composer
from train.errors import ConfigError
from train.refusals import check
from train.suggest import parse

DEFAULT_SCALE = "laptop"
TAKEN = ("sweep", "scale", "seed", "dry_run")  # words of the sweep; everything else goes to its runs


@dataclass(frozen=True)
class Launch:
    """A sweep about to be launched. ``configs`` are those of ``sweep.runs``, in the same order."""

    sweep: Sweep
    configs: tuple[DictConfig, ...]
    output_dir: Path
    dry_run: bool

    @property
    def folder(self) -> Path:
        return record.folder_of(self.sweep, self.output_dir)

    def states(self) -> list[State]:
        return [state(self.output_dir / run.folder) for run in self.sweep.runs]


def sweep_asked_for(overrides: Sequence[str]) -> bool:
    return any(override.key_or_group == "sweep" for override in parse(overrides))


def plan_launch(overrides: Sequence[str], config_dir: str | None = None) -> Launch:
    """Expand the sweep, compose each run and check it.

    Raises:
        ConfigError: no such sweep or scale, or a run that could not be; nothing has been started.
    """
    words = _Words(parse([text for text in overrides if not text.startswith("hydra")]))
    try:
        definition = load(words.one("sweep", ""))
        scale = words.one("scale", DEFAULT_SCALE)
        chosen = scale_of(definition, scale)
    except SweepError as error:
        raise ConfigError(str(error)) from error
    name = Path(words.one("sweep", "")).stem
    planned = points(chosen, words.seeds(chosen), words.extra(), words.axes())
    configs = tuple(_composed(planned, config_dir))
    runs = [_run(name, point, config) for point, config in zip(planned, configs, strict=True)]
    sweep = record.new(name, definition, scale, chosen, _changing(words), runs)
    return Launch(
        sweep, configs, Path(configs[0].output_dir).expanduser().absolute(), words.one("dry_run", "false").lower() == "true"
    )


def _composed(planned: Sequence[Point], config_dir: str | None) -> Iterator[DictConfig]:
    with composer(config_dir) as composed:
        for point in planned:
            try:
                config = composed(point.overrides)
                check(config)
            except ConfigError as error:
                raise ConfigError(f"{point.label}: {error}") from error
            yield config


def _run(name: str, point: Point, config: DictConfig) -> SweepRun:
    """The group and the name are for the trackers."""
    watched = [f"tracking.group='{config.tracking.group or name}'", f"tracking.run_name='{point.label}'"]
    return SweepRun(dict(point.coordinates), point.seed, [*point.overrides, *watched], run_name(config))


def _changing(words: _Words) -> list[str]:
    """Command-line overrides that make other runs of it, so another sweep folder; where they compute does not."""
    outside = outside_identity()
    return [text for text in (*words.extra(), *words.varied()) if text.lstrip("+~").split("=")[0] not in outside]


class _Words:
    """The command line: what the sweep takes for itself, what varies, and what all runs get."""

    def __init__(self, overrides: Sequence[Override]) -> None:
        self._all = overrides

    def one(self, key: str, default: str) -> str:
        """Raises: ConfigError: several values."""
        found = [override for override in self._all if override.key_or_group == key]
        if found and found[-1].is_sweep_override():
            raise ConfigError(f"{found[-1].input_line}: one {key} at a time")
        return found[-1].get_value_element_as_str() if found else default

    def seeds(self, scale: Scale) -> list[int]:
        """Raises: ConfigError: a seed that is no number."""
        found = [override for override in self._all if override.key_or_group == "seed"]
        try:
            return [int(text) for text in _values(found[-1])] if found else list(scale.seeds)
        except ValueError as error:
            raise ConfigError(f"{found[-1].input_line}: seeds are whole numbers, as in seed=0,1,2") from error

    def extra(self) -> list[str]:
        return [override.input_line or "" for override in self._rest() if not override.is_sweep_override()]

    def varied(self) -> list[str]:
        return [override.input_line or "" for override in self._rest() if override.is_sweep_override()]

    def axes(self) -> dict[str, Axis]:
        """An axis of its own for each key with several values."""
        several = [override for override in self._rest() if override.is_sweep_override()]
        return {o.key_or_group: {text: [f"{o.get_key_element()}={text}"] for text in _values(o)} for o in several}

    def _rest(self) -> list[Override]:
        return [override for override in self._all if override.key_or_group not in TAKEN]


def _values(override: Override) -> list[str]:
    return (
        list(override.sweep_string_iterator())
        if override.is_sweep_override()
        else [override.get_value_element_as_str()]
    )
