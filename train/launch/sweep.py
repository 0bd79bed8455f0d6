"""``-m sweep=NAME``: from one command line to the runs of a sweep, composed and checked before the first one starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from tqdm import tqdm

from config.checks.check import check
from config.compose import composer
from config.errors import ConfigError
from config.overrides import parse, search_paths
from envs.utils.bar import ticking_bar
from experiments.sweep import record
from experiments.sweep.definition import Point, SweepError, load, part, points, scale_of
from experiments.sweep.record import Sweep, SweepRun
from records.run_folder import put_aside, run_name
from train.launch.sweep_words import SweepWords, split_only

DEFAULT_SCALE = "laptop"


@dataclass(frozen=True)
class Launch:
    """A sweep, or a part of it, about to be launched.

    Attributes:
        sweep: with the runs that were asked for.
        whole: the coordinates of all settings, also of those that were not.
        configs: of ``sweep.runs``, in the same order.
        fresh: what lies in their folders is put aside first, once, since a job that goes back into the queue must go on
            with its own.
    """

    sweep: Sweep
    whole: tuple[Mapping[str, str], ...]
    configs: tuple[DictConfig, ...]
    output_dir: Path
    dry_run: bool
    fresh: bool

    @property
    def folder(self) -> Path:
        return record.folder_of(self.sweep, self.output_dir)

    def put_aside(self) -> None:
        """Raises: RunFolderBusy: a process is at work in one of them."""
        for run in self.sweep.runs:
            put_aside(self.output_dir / run.folder)


def sweep_asked_for(overrides: Sequence[str]) -> bool:
    rest, _ = split_only(overrides)
    return any(override.key_or_group == "sweep" for override in parse(rest))


def prepare_launch(overrides: Sequence[str], config_dir: str | None = None) -> Launch:
    """Expand the sweep, compose each run and check it.

    Raises:
        SweepError, ConfigError: no such sweep or scale; a run that could not be. Nothing has been started.
    """
    rest, only = split_only(overrides)
    words = SweepWords(parse([text for text in rest if not text.startswith("hydra")]))
    ways = {"dry_run": words.yes("dry_run"), "fresh": words.yes("fresh")}  # composing takes seconds
    name, scale = words.one("sweep", ""), words.one("scale", DEFAULT_SCALE)
    try:
        definition = load(name)
    except SweepError as error:
        raise ConfigError(str(error) if "sweep=" in str(error) else f"sweep={name}: {error}") from error
    chosen = scale_of(definition, scale)
    whole = points(chosen, words.seeds(chosen), words.extra(), words.axes())
    chosen_points = part(whole, only)
    stem = Path(name).stem
    configs: list[DictConfig] = []
    runs: list[SweepRun] = []
    places = search_paths(overrides)
    with composing_bar(len(chosen_points)) as bar:
        for point, config in zip(chosen_points, _composed(chosen_points, config_dir, places), strict=True):
            configs.append(config)
            runs.append(_run(stem, point, config))
            bar.update()
    sweep = record.new(stem, definition, scale, chosen, words.changing(), runs)
    output_dir = Path(configs[0].output_dir).expanduser().absolute()
    settings = tuple(point.coordinates for point in whole)
    return Launch(sweep, settings, tuple(configs), output_dir, **ways)


@contextmanager
def composing_bar(runs: int) -> Iterator[tqdm]:
    """At a terminal: hundreds of runs take a while to compose."""
    shown = {"total": runs, "desc": "composing", "unit": "run", "leave": False}
    with ticking_bar(**shown, disable=not sys.stderr.isatty()) as bar:
        yield bar


def _composed(chosen_points: Sequence[Point], config_dir: str | None, places: Sequence[str]) -> Iterator[DictConfig]:
    with composer(config_dir) as composed:
        for point in chosen_points:
            try:
                config = composed([*places, *point.overrides])
                check(config)
            except ConfigError as error:
                raise ConfigError(f"{point.label}: {error}") from error
            yield config


def _run(name: str, point: Point, config: DictConfig) -> SweepRun:
    """The group and the name are for the trackers."""
    watched = [f"tracking.group='{config.tracking.group or name}'", f"tracking.run_name='{point.label}'"]
    return SweepRun(dict(point.coordinates), point.seed, [*point.overrides, *watched], run_name(config))
