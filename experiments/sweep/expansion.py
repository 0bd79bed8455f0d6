"""From a sweep's axes and seeds to the overrides of each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from envs.utils.names import meant
from experiments.sweep.definition import Axis, Scale, SweepError

NO_QUOTES = str.maketrans("", "", "'\"[]")


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
    found = []
    for seed, labels in product(seeds, product(*axes.values())):
        coordinates = dict(zip(axes, labels, strict=True))
        chosen = [text for axis, label in coordinates.items() for text in axes[axis][label]]
        found.append(Point(coordinates, seed, (*scale.overrides, *chosen, *extra, f"seed={seed}")))
    return found


def part(points: Sequence[Point], only: Mapping[str, str]) -> list[Point]:
    """The points that stand, on each axis that ``only`` names, on one of its values, as in ``{"algo": "ppo,rloo"}``.

    Raises:
        SweepError: there is no such axis or value; the message names the nearest.
    """
    axes = dict.fromkeys(name for point in points for name in point.coordinates)
    if unknown := [axis for axis in only if axis not in axes]:
        raise _unknown(unknown[0], "axis", unknown[0], list(axes))
    chosen = {axis: _named(axis, text, points) for axis, text in only.items()}
    return [point for point in points if all(point.coordinates[axis] in values for axis, values in chosen.items())]


def _named(axis: str, text: str, points: Sequence[Point]) -> list[str]:
    """The values in a list of them; a value's own commas are its own."""
    choices = list(dict.fromkeys(point.coordinates[axis] for point in points))
    found: list[str] = []
    rest = text.translate(NO_QUOTES).strip()
    while rest or not found:
        fitting = [value for value in choices if rest == value or rest.startswith(f"{value},")]
        if not fitting:
            raise _unknown(axis, f"value of {axis}", rest.split(",")[0], choices)
        found.append(max(fitting, key=len))
        rest = rest.removeprefix(found[-1]).lstrip(", ")
    return found


def _unknown(axis: str, what: str, name: str, choices: Sequence[str]) -> SweepError:
    hint = f"{meant(name, choices)} (choices: {', '.join(choices)})"
    return SweepError(f"only.{axis}: this sweep has no {what} {name}{hint}")
