"""What was launched, kept as ``sweep.json`` in the sweep's own folder: the report reads it, and a later launch adds to it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from envs.utils.files import write_whole
from experiments.sweep.definition import Definition, Layout, Scale, Takeaway
from experiments.sweep.expansion import label

FILE = "sweep.json"
FOLDER, GRIDS = "sweeps", "multirun"  # under the folder of the runs


class SweepRun(msgspec.Struct, frozen=True):
    """A run of the sweep; ``folder`` is relative to the folder of the runs. ``coordinates``: axis -> value, less the seed."""

    coordinates: dict[str, str]
    seed: int
    overrides: list[str]
    folder: str

    @property
    def label(self) -> str:
        return label(self.coordinates, self.seed)


class Sweep(msgspec.Struct, frozen=True):
    """``extra``: overrides given on the command line that change what the runs are. A grid without a sweep file has no ``scale``."""

    name: str
    scale: str
    title: str
    question: str
    published: str | None
    note: str
    layout: Layout
    takeaways: tuple[Takeaway, ...]
    extra: list[str]
    runs: list[SweepRun]

    @property
    def folder_name(self) -> str:
        """``NAME-SCALE``, and 8 hex digits of ``extra`` where there is any; a grid's name alone."""
        digits = hashlib.sha256("\n".join(sorted(self.extra)).encode()).hexdigest()[:8]
        return "-".join([self.name, *([self.scale] if self.scale else []), *([digits] if self.extra else [])])


def new(
    name: str, definition: Definition, scale: str, chosen: Scale, extra: Sequence[str], runs: list[SweepRun]
) -> Sweep:
    return Sweep(
        name=name,
        scale=scale,
        title=definition.title,
        question=definition.question,
        published=definition.published,
        note=chosen.note,
        layout=chosen.layout,
        takeaways=chosen.takeaways,
        extra=list(extra),
        runs=runs,
    )


def folder_of(sweep: Sweep, output_dir: Path) -> Path:
    return output_dir / (FOLDER if sweep.scale else GRIDS) / sweep.folder_name


def write(sweep: Sweep, output_dir: Path, whole: Sequence[Mapping[str, str]] = ()) -> Path:
    """Write the record whole or not at all, with the runs of earlier launches that are still part of the sweep, such as
    those of other seeds; returns the sweep's folder.

    ``whole``: the coordinates of every setting that the sweep has, where ``sweep.runs`` are a part of it.
    """
    folder = folder_of(sweep, output_dir)
    merged = msgspec.structs.replace(sweep, runs=_with_earlier(sweep, read(folder), whole))
    write_whole(folder / FILE, msgspec.json.format(msgspec.json.encode(merged), indent=2))
    return folder


def _with_earlier(sweep: Sweep, earlier: Sweep | None, whole: Sequence[Mapping[str, str]]) -> list[SweepRun]:
    """Seed by seed, in the order of the settings."""
    settings = list(whole) or [run.coordinates for run in sweep.runs]
    launched = [(run.coordinates, run.seed) for run in sweep.runs]
    old = earlier.runs if earlier else []
    kept = [run for run in old if (run.coordinates, run.seed) not in launched and run.coordinates in settings]
    said = {run.folder: run.overrides for run in sweep.runs}  # two settings may be one run
    kept = [msgspec.structs.replace(run, overrides=said.get(run.folder, run.overrides)) for run in kept]
    return sorted([*kept, *sweep.runs], key=lambda run: (run.seed, settings.index(run.coordinates)))


def read(folder: Path) -> Sweep | None:
    """The record of a sweep's folder; None where there is none."""
    path = folder / FILE
    return msgspec.json.decode(path.read_bytes(), type=Sweep) if path.exists() else None
