"""A sweep file: one question of the study as sets of overrides times seeds, in two scales (``docs/sweeps.md``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from envs.utils.names import meant, nearest
from records.process.exit_codes import Refusal

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
SUCCESS, SCORE = "success", "score"
MEASURES = (SUCCESS, SCORE)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the quick one, where PyYAML has libyaml
RESERVED = ("stage", "evaluation_set", "measure", "published", "minus")
STAGES = ("base", "sft", "rl", "last")

Selector = dict[str, str]
Axis = dict[str, list[str]]


class SweepError(Refusal):
    """The sweep does not exist, or its file says something that cannot be meant."""


class Layout(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The report's table: a cell takes the runs that its row's and its column's selectors name together."""

    rows: dict[str, Selector]
    columns: dict[str, Selector]


class Takeaway(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A claim that holds where ``higher`` succeeds more often (or scores more) than ``lower``. ``minus`` inside either is
    subtracted first."""

    claim: str
    higher: dict[str, str | Selector]
    lower: dict[str, str | Selector]


class Scale(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What runs at one scale: the product of the ``axes``, each value a set of overrides, times ``seeds``.

    ``measure`` is what cells and takeaways compare where their selectors name none: ``success``, or the mean ``score``.
    """

    axes: dict[str, Axis]
    layout: Layout
    seeds: tuple[int, ...] = (0, 1, 2)
    overrides: tuple[str, ...] = ()
    takeaways: tuple[Takeaway, ...] = ()
    note: str = ""
    measure: str = SUCCESS


class Definition(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole file. ``published`` is a key of ``experiments.report.published``; None where the study has no such table."""

    title: str
    question: str
    scales: dict[str, Scale]
    published: str | None = None


def names() -> list[str]:
    """Every sweep that can be asked for by name."""
    return sorted(path.stem for path in SWEEPS.glob("*.yaml"))


def load(name: str, folder: Path = SWEEPS) -> Definition:
    """The sweep ``NAME``, or the file that ends in ``.yaml``.

    Raises:
        SweepError: no such sweep, or the file breaks the rules; the message names the place.
    """
    path = Path(name).expanduser() if name.endswith(".yaml") else folder / f"{name}.yaml"
    if not path.exists():
        raise SweepError(f"unknown sweep={name}{_meant(name)}")
    try:
        definition = msgspec.convert(yaml.load(path.read_text(encoding="utf-8"), LOADER), Definition)
    except (msgspec.ValidationError, yaml.YAMLError) as error:
        raise SweepError(f"{path.name}: {' '.join(str(error).split())}") from error
    for scale_name, scale in definition.scales.items():
        _check(f"{path.name}: {scale_name}", scale)
    return msgspec.structs.replace(
        definition, scales={name: _measured(scale) for name, scale in definition.scales.items()}
    )


def _measured(scale: Scale) -> Scale:
    """The scale's measure in each selector that has none of its own."""
    if scale.measure == SUCCESS:
        return scale

    def measured(selectors: Mapping[str, Selector]) -> dict[str, Selector]:
        return {name: {"measure": scale.measure, **selector} for name, selector in selectors.items()}

    def side(own: Mapping[str, str | Selector]) -> dict[str, str | Selector]:
        parts = {name: part for name, part in own.items() if not isinstance(part, str)}
        return {**own, "measure": own.get("measure", scale.measure), **measured(parts)}

    layout = msgspec.structs.replace(scale.layout, rows=measured(scale.layout.rows))
    takeaways = tuple(Takeaway(item.claim, side(item.higher), side(item.lower)) for item in scale.takeaways)
    return msgspec.structs.replace(scale, layout=layout, takeaways=takeaways)


def _meant(name: str) -> str:
    near = nearest(name, names(), cutoff=0.3) or next((other for other in names() if name in other), "")
    return f"; did you mean sweep={near}?" * bool(near) + f" (choices: {', '.join(names())})"


def scale_of(definition: Definition, scale: str) -> Scale:
    """Raises: SweepError: the sweep has no such scale."""
    if scale not in definition.scales:
        raise SweepError(f"this sweep has no scale={scale} (choices: {', '.join(definition.scales)})")
    return definition.scales[scale]


def _check(where: str, scale: Scale) -> None:
    """Raises: SweepError: a selector names an axis, a value or a stage that is not there."""
    if scale.measure not in MEASURES:
        raise SweepError(f"{where}: measure: {scale.measure} is none of {', '.join(MEASURES)}")
    for axis in scale.axes:
        if axis in RESERVED:
            raise SweepError(f"{where}: an axis cannot be called {axis}")
    for part, selector in _selectors(scale):
        for key, value in selector.items():
            if problem := _problem(scale, key, value):
                raise SweepError(f"{where}: {part}: {problem}")


def _selectors(scale: Scale) -> list[tuple[str, Selector]]:
    found = [(f"layout.rows.{name}", selector) for name, selector in scale.layout.rows.items()]
    found += [(f"layout.columns.{name}", selector) for name, selector in scale.layout.columns.items()]
    for takeaway in scale.takeaways:
        for side in (takeaway.higher, takeaway.lower):
            found += [(f"takeaway {takeaway.claim!r}", part) for part in flattened(side)]
    return found


def flattened(side: dict[str, str | Selector]) -> list[Selector]:
    """A takeaway's selector and, where it has one, the selector that it subtracts."""
    own = {key: value for key, value in side.items() if isinstance(value, str)}
    return [own, *(value for value in side.values() if not isinstance(value, str))]


def _problem(scale: Scale, key: str, value: str) -> str:
    if key == "stage":
        return "" if value in STAGES else f"stage: {value} is none of {', '.join(STAGES)}"
    if key == "measure":
        return "" if value in MEASURES else f"measure: {value} is none of {', '.join(MEASURES)}"
    if key in RESERVED:
        return ""
    if key not in scale.axes:
        return f"no axis {key}" + (meant(key, [*scale.axes, *RESERVED]) or f" (axes: {', '.join(scale.axes)})")
    return "" if value in scale.axes[key] else f"axis {key} has no {value} (values: {', '.join(scale.axes[key])})"
