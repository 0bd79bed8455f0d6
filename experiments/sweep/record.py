"""The record of a launched sweep, ``sweep.json`` in its folder."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.sweep.definition import Layout, SweepRun, Takeaway

FILE = "sweep.json"
FOLDER, GRIDS = "sweeps", "multirun"  # under the folder of the runs


class Sweep(msgspec.Struct, frozen=True):
    """A launched sweep, or a grid, which has no ``scale``."""

    name: str
    scale: str
    title: str
    question: str
    published: str | None
    note: str
    layout: Layout
    takeaways: tuple[Takeaway, ...]
    extra: list[str]  # overrides from the command line
    runs: list[SweepRun]
    suite: dict[str, list[str]] | None = None  # of a suite: environments that are not trained in, with overrides

    @property
    def folder_name(self) -> str:
        """Return ``NAME-SCALE`` (a grid's name), with 8 digits if there are ``extra`` overrides."""
        digits = hashlib.sha256("\n".join(sorted(self.extra)).encode()).hexdigest()[:8]
        return "-".join([self.name, *([self.scale] if self.scale else []), *([digits] if self.extra else [])])


def folder_of(sweep: Sweep, output_dir: Path) -> Path:
    return output_dir / (FOLDER if sweep.scale else GRIDS) / sweep.folder_name


def write(sweep: Sweep, output_dir: Path, whole: Sequence[Mapping[str, str]] = ()) -> Path:
    """Write the record and return the sweep's folder.

    Runs of earlier launches that still belong to the sweep are kept, such as those of other seeds.
    Runs are in the order of seeds, then of settings.
    """
    folder = folder_of(sweep, output_dir)
    earlier = read(folder)
    settings = list(whole) or [run.coordinates for run in sweep.runs]
    launched = [(run.coordinates, run.seed) for run in sweep.runs]
    kept = [
        run
        for run in (earlier.runs if earlier else [])
        if (run.coordinates, run.seed) not in launched and run.coordinates in settings
    ]
    runs = sorted([*kept, *sweep.runs], key=lambda run: (run.seed, settings.index(run.coordinates)))
    merged = msgspec.structs.replace(sweep, runs=runs)
    write_whole(folder / FILE, msgspec.json.format(msgspec.json.encode(merged), indent=2))
    return folder


def read(folder: Path) -> Sweep | None:
    """Return the record in a sweep's folder; None if there is none."""
    path = folder / FILE
    return msgspec.json.decode(path.read_bytes(), type=Sweep) if path.exists() else None
