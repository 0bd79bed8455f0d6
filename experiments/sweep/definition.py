"""A sweep file and its runs (``docs/sweeps.md``)."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec
import yaml
from hydra.core.override_parser.types import Override

from turngrid.config.overrides import typed
from turngrid.envs.extensions import shipped
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import meant, nearest
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.run_folder import outside_identity

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
SUCCESS, SCORE = "success", "score"
MEASURES = (SUCCESS, SCORE)
RESERVED = ("stage", "evaluation_set", "measure", "published", "minus")
STAGES = ("base", "sft", "rl", "last")
INSTALL = "install "  # the messages on missing extras name a command that installs them
NO_QUOTES = str.maketrans("", "", "'\"[]")

Selector = dict[str, str]
Axis = dict[str, list[str]]


class Layout(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The report's table: a cell shows the runs that match the selectors of row and column."""

    rows: dict[str, Selector]
    columns: dict[str, Selector]


class Takeaway(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A claim that ``higher`` beats ``lower``; a ``minus`` in a side is subtracted from it."""

    claim: str
    higher: dict[str, str | Selector]
    lower: dict[str, str | Selector]


class Scale(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The runs of one scale: the product of the ``axes`` and ``seeds``."""

    axes: dict[str, Axis]  # axis -> value -> overrides
    layout: Layout
    seeds: tuple[int, ...] = (0, 1, 2)
    overrides: tuple[str, ...] = ()
    takeaways: tuple[Takeaway, ...] = ()
    note: str = ""


class Definition(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A sweep file."""

    title: str
    question: str
    scales: dict[str, Scale]
    published: str | None = None  # a table of experiments/report/cells.py
    suite: dict[str, list[str]] | None = None  # environment -> overrides; then experiments.suite prints its tables too


def names() -> list[str]:
    """Return the names of all sweeps of this repository."""
    return sorted(path.stem for path in SWEEPS.glob("*.yaml"))


def load(name: str) -> Definition:
    """Read the sweep ``NAME``, or the file ``NAME.yaml``.

    Raises:
        Refusal: there is no such sweep, or its file is invalid; the message names the key.
    """
    path = Path(name).expanduser() if name.endswith(".yaml") else SWEEPS / f"{name}.yaml"
    if not path.exists():
        known = names()
        near = nearest(name, known, cutoff=0.3) or next((other for other in known if name in other), "")
        raise Refusal(f"unknown sweep={name}{f'; use sweep={near}' * bool(near)} (choices: {', '.join(known)})")
    try:
        definition = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), Definition)
    except (msgspec.ValidationError, yaml.YAMLError) as error:
        raise Refusal(f"{path.name}: {' '.join(str(error).split())}") from error
    for scale_name, scale in definition.scales.items():
        _check(f"{path.name}: {scale_name}", scale)
    return definition


def scale_of(definition: Definition, scale: str) -> Scale:
    """Return a scale by name; raise Refusal if there is none."""
    if scale not in definition.scales:
        raise Refusal(f"this sweep has no scale={scale} (choices: {', '.join(definition.scales)})")
    return definition.scales[scale]


def _check(where: str, scale: Scale) -> None:
    """Check all selectors."""
    for axis in scale.axes:
        if axis in RESERVED:
            raise Refusal(f"{where}: an axis cannot be called {axis}")
    for part, selector in _selectors(scale):
        for key, value in selector.items():
            if problem := _problem(scale, key, value):
                raise Refusal(f"{where}: {part}: {problem}")


def _selectors(scale: Scale) -> list[tuple[str, Selector]]:
    layout, sides = scale.layout, ("higher", "lower")
    selectors = [(f"layout.rows.{name}", selector) for name, selector in layout.rows.items()]
    selectors += [(f"layout.columns.{name}", selector) for name, selector in layout.columns.items()]
    parts = ((one.claim, part) for one in scale.takeaways for side in sides for part in flattened(getattr(one, side)))
    return selectors + [(f"takeaway {claim!r}", part) for claim, part in parts]


def flattened(side: dict[str, str | Selector]) -> list[Selector]:
    """Return a takeaway's selector and, if it has one, the selector that it subtracts."""
    own = {key: value for key, value in side.items() if isinstance(value, str)}
    return [own, *(value for value in side.values() if not isinstance(value, str))]


def _problem(scale: Scale, key: str, value: str) -> str:
    if (words := {"stage": STAGES, "measure": MEASURES}.get(key)) and value not in words:
        return f"{key}: {value} is none of {', '.join(words)}"
    if key in RESERVED:
        return ""
    if key not in scale.axes:
        return f"no axis {key}" + (meant(key, [*scale.axes, *RESERVED]) or f" (axes: {', '.join(scale.axes)})")
    return "" if value in scale.axes[key] else f"axis {key} has no {value} (values: {', '.join(scale.axes[key])})"


class SweepRun(msgspec.Struct, frozen=True):
    """A run of a sweep: its value on each axis, its seed and its overrides.

    ``folder`` is relative to the folder of the runs; "" before the run is composed.
    """

    coordinates: dict[str, str]
    seed: int
    overrides: list[str]
    folder: str = ""

    @property
    def label(self) -> str:
        """Return ``algo=ppo seed=1``."""
        return " ".join([*(f"{axis}={value}" for axis, value in self.coordinates.items()), f"seed={self.seed}"])


def points(scale: Scale, seeds: Sequence[int], extra: Sequence[str], more: Mapping[str, Axis]) -> list[SweepRun]:
    """Return every run, seed by seed.

    Args:
        seeds: replace the file's; without seeds, a run has that of its config.
        extra: overrides of every run, after the file's.
        more: further axes, from the command line.
    """
    axes = {**scale.axes, **more}
    runs = []
    for seed, labels in product(seeds or (None,), product(*axes.values())):
        coordinates = dict(zip(axes, labels, strict=True))
        chosen = [text for axis, label in coordinates.items() for text in axes[axis][label]]
        last = [] if seed is None else [f"seed={seed}"]
        runs.append(SweepRun(coordinates, seed or 0, [*scale.overrides, *chosen, *extra, *last]))
    return runs


def of_identity(overrides: Sequence[Override]) -> list[str]:
    """Return the overrides that change a run's identity, unlike ``cluster.name=mine``."""
    outside = {*outside_identity()}
    return [typed(o) for o in overrides if outside.isdisjoint((o.key_or_group, o.key_or_group.split(".")[0]))]


def part(points: Sequence[SweepRun], only: Mapping[str, str]) -> list[SweepRun]:
    """Return the points with the values given in ``only``, as in ``{"algo": "ppo,rloo"}``.

    Raises:
        Refusal: there is no such axis or value; the message names the nearest.
    """
    axes = dict.fromkeys(name for point in points for name in point.coordinates)
    chosen = {}
    for axis, text in only.items():
        if axis not in axes:
            raise _unknown(axis, "axis", axis, list(axes))
        chosen[axis] = _named(axis, text, list(dict.fromkeys(point.coordinates[axis] for point in points)))
    return [point for point in points if all(point.coordinates[axis] in values for axis, values in chosen.items())]


def _named(axis: str, text: str, choices: Sequence[str]) -> list[str]:
    """Split a comma-separated list of values; a value may itself contain commas."""
    names: list[str] = []
    rest = text.translate(NO_QUOTES).strip()
    while rest or not names:
        fitting = [value for value in choices if rest == value or rest.startswith(f"{value},")]
        if not fitting:
            raise _unknown(axis, f"value of {axis}", rest.split(",")[0], choices)
        names.append(max(fitting, key=len))
        rest = rest.removeprefix(names[-1]).lstrip(", ")
    return names


def _unknown(axis: str, what: str, name: str, choices: Sequence[str]) -> Refusal:
    hint = f"{meant(name, choices)} (choices: {', '.join(choices)})"
    return Refusal(f"only.{axis}: this sweep has no {what} {name}{hint}")


def lacking(overrides: Sequence[str]) -> str:
    """Return the message on the extra that the environment of these overrides lacks; "" if none.

    Raises:
        TaskError: there is no such environment or task.
    """
    values = dict(item.split("=", 1) for item in overrides)
    name = values["env"]
    settings = {key.removeprefix("env."): value for key, value in values.items() if key in ("env.task", "env.id")}
    node = {**shipped("env", name), **settings}
    try:
        make_environment(name, settings).parse_task(node.get("task") or node["id"])
    except TaskError as error:
        if INSTALL in str(error):
            return str(error)
        raise
    return ""
