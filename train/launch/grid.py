"""A grid without a sweep file: its runs are recorded like a sweep's, so that a report can compare them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from omegaconf import DictConfig

from config.overrides import parse, typed
from envs.utils.names import file_name
from experiments.sweep.definition import Layout
from experiments.sweep.record import Sweep, SweepRun
from records.run_folder import run_name
from train.launch.sweep_words import outside

OF_RUNS = ("seed", "fresh", "dry_run")  # keys that make no other grid
DIGITS = 8


def grid(overrides: Sequence[str], runs: Sequence[Sequence[str]], configs: Sequence[DictConfig]) -> Sweep | None:
    """Return the record of a grid; its axes are the keys with several values, except the seed.

    Args:
        overrides: as typed.
        runs: overrides of each run.
        configs: of each run.

    Returns:
        None if there is one run, or if the runs write to several folders.
    """
    if len(runs) < 2 or len({config.output_dir for config in configs}) > 1:
        return None
    several = [o for o in parse(overrides) if o.is_sweep_override() and o.key_or_group != "seed"]
    varied = {o.key_or_group: typed(o).partition("=")[2] for o in several}
    return Sweep(
        name=_name(overrides, list(varied)),
        scale="",
        title=" ".join(f"{_short(axis)}={values}" for axis, values in varied.items()) or "Seeds",
        question="",
        published=None,
        note="",
        layout=Layout(rows={}, columns={}),  # the report fills it, once the stages are known
        takeaways=(),
        extra=[],
        runs=[_run(run, config, list(varied)) for run, config in zip(runs, configs, strict=True)],
    )


def _name(overrides: Sequence[str], axes: Sequence[str]) -> str:
    """Return a name such as ``algo-lr-3f2a9c1e``, the same for other seeds of the grid."""
    changing = sorted(typed(o) for o in parse(overrides) if not _is_ignored(o.key_or_group))
    digits = hashlib.sha256("\n".join(changing).encode()).hexdigest()[:DIGITS]
    return file_name("-".join([*map(_short, axes), digits]))


def _short(axis: str) -> str:
    return axis.split(".")[-1]


def _is_ignored(key: str) -> bool:
    return key in OF_RUNS or key.startswith("hydra") or outside(key)


def _run(overrides: Sequence[str], config: DictConfig, axes: Sequence[str]) -> SweepRun:
    values = {override.key_or_group: typed(override).partition("=")[2] for override in parse(overrides)}
    own = [text for text in overrides if not text.lstrip("+~").startswith("hydra")]
    return SweepRun({axis: values[axis] for axis in axes}, int(config.seed), own, run_name(config))
