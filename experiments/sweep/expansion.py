"""From a sweep's axes and seeds to the overrides of each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from experiments.sweep.definition import Axis, Scale


@dataclass(frozen=True)
class Point:
    """One run to be: where it stands on each axis, its seed, and what the command line of that run would say."""

    coordinates: Mapping[str, str]
    seed: int
    overrides: tuple[str, ...]

    @property
    def label(self) -> str:
        return label(self.coordinates, self.seed)


def label(coordinates: Mapping[str, str], seed: int) -> str:
    """``algo=ppo seed=1``: what a person tells a run from the others by."""
    return " ".join([*(f"{axis}={value}" for axis, value in coordinates.items()), f"seed={seed}"])


def points(scale: Scale, seeds: Sequence[int], extra: Sequence[str], more: Mapping[str, Axis]) -> list[Point]:
    """Every run, seed by seed, so that a sweep cut short has whole rounds.

    Args:
        seeds: in place of the file's own.
        extra: overrides of every run; they win over the file's.
        more: axes from the command line, beside the file's.
    """
    axes = {**scale.axes, **more}
    return [
        Point(coordinates, seed, (*scale.overrides, *chosen, *extra, f"seed={seed}"))
        for seed in seeds
        for coordinates, chosen in _product(axes)
    ]


def _product(axes: Mapping[str, Axis]) -> Iterator[tuple[dict[str, str], list[str]]]:
    for labels in product(*axes.values()):
        coordinates = dict(zip(axes, labels, strict=True))
        yield coordinates, [text for axis, label in coordinates.items() for text in axes[axis][label]]
