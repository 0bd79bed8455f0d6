"""The file of results, a line for each correction in each cell, and the tables made of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mismatch.samplers import SAMPLERS
from benchmarks.mismatch.study import Cell, Size
from turngrid.experiments.credit_quality.intervals import DRAWS, estimated
from turngrid.experiments.tables import interval, rounded, shown, table
from turngrid.records.files.json_lines import read_lines
from turngrid.records.statistics import Interval

FILE, TABLES = "results.jsonl", "tables.md"
AGAINST = "none"  # all corrections are compared with it
DECISIVE = 0.02  # a difference in success below this is no reason to choose


@dataclass(frozen=True)
class Key:
    """Subject of a line of the file."""

    sampler: str
    turns: int
    correction: str
    size: Size
    settings: str = ""  # the typed ones of the loss


@dataclass(frozen=True)
class Figures:
    """Figures of a correction in a cell; intervals are over seeds."""

    nats: float  # mean |difference| in log-probs of a token
    bias: Interval  # |mean gradient - truth| / |truth|
    cosine: Interval  # of the mean gradient with the truth
    variance: Interval  # trace of the covariance of a step's gradient / |truth|^2
    kept: float  # share of tokens that count
    success: tuple[float, ...]  # of each seed after the training


def figures(nats: float, cell: Cell) -> Figures:
    seeds = len(cell.success)
    bias2 = estimated(mean(cell.bias2), seeds, DRAWS)
    root = [float(np.sqrt(max(0.0, bound))) for bound in (bias2.mean, bias2.low, bias2.high)]
    cosine = estimated(ratio(cell.along, cell.size2), seeds, DRAWS)
    variance = estimated(mean(cell.variance), seeds, DRAWS)
    return Figures(nats, Interval(*root), cosine, variance, float(np.mean(cell.kept)), tuple(cell.success))


def mean(column: Sequence[float]) -> Callable[[np.ndarray], np.ndarray]:
    """Return the mean over seeds as a statistic of (draws, seeds) counts."""
    return lambda several: several @ np.array(column) / several.sum(axis=1)


def ratio(along: Sequence[float], size2: Sequence[float]) -> Callable[[np.ndarray], np.ndarray]:
    """Return the cosine as a statistic; NaN if the gradient is only noise."""

    def cosine(several: np.ndarray) -> np.ndarray:
        square = mean(size2)(several)
        return np.where(square > 0, mean(along)(several) / np.sqrt(np.where(square > 0, square, 1)), np.nan)

    return cosine


# ---- the file


def line(key: Key, found: Figures) -> dict[str, Any]:
    """Return the record of a line, without empty settings; numbers have four digits."""
    about = {name: value for name, value in asdict(key).items() if value and name != "size"}
    return rounded({**about, **asdict(key.size), **asdict(found)})


def read(file: Path) -> dict[Key, Figures]:
    """Return what was measured; a later line replaces an earlier one."""
    return dict(map(_parsed, read_lines(file)))


def _parsed(record: dict[str, Any]) -> tuple[Key, Figures]:
    size = Size(*(record[name] for name in ("seeds", "batches", "steps")))
    intervals = {name: interval(record[name]) for name in ("bias", "cosine", "variance")}
    key = Key(record["sampler"], record["turns"], record["correction"], size, record.get("settings", ""))
    return key, Figures(record["nats"], **intervals, kept=record["kept"], success=tuple(record["success"]))


# ---- tables

Cells = Mapping[tuple[str, int], Mapping[str, Figures]]  # by sampler and turns, then by correction


def cells(found: Mapping[Key, Figures], size: Size, settings: str = "") -> Cells:
    """Return what was measured so, samplers in their order and turns ascending."""
    order = [*SAMPLERS]
    grouped: dict[tuple[str, int], dict[str, Figures]] = {}
    chosen = [(key, value) for key, value in found.items() if (key.size, key.settings) == (size, settings)]
    for key, value in sorted(chosen, key=lambda item: (order.index(item[0].sampler), item[0].turns)):
        grouped.setdefault((key.sampler, key.turns), {})[key.correction] = value
    return grouped


def advice(found: Cells) -> str:
    """Return which corrections learn better or worse than none, by sampler and turns.

    Only differences whose interval is beyond ``DECISIVE`` are there.
    """
    turns = sorted({number for _, number in found})
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        own = [_advised(found.get((name, number), {})) for number in turns]
        nats = " / ".join(_nats(found.get((name, number), {})) for number in turns)
        rows.append([f"`{name}`", nats, *own])
    return table(["sampler", "nats a token", *(f"{number} turns" for number in turns)], rows)


def _nats(own: Mapping[str, Figures]) -> str:
    return f"{next(iter(own.values())).nats:.3f}" if own else "-"


def _advised(own: Mapping[str, Figures]) -> str:
    if AGAINST not in own:
        return "not measured"
    less = compared(own)
    better = [name for name in sorted(less, key=lambda name: -less[name].mean) if less[name].low > DECISIVE]
    worse = [name for name in sorted(less, key=lambda name: less[name].mean) if less[name].high < -DECISIVE]
    parts = [f"none {np.mean(own[AGAINST].success):.2f}"]
    for word, names in (("better", better), ("worse", worse)):
        if names:
            parts.append(f"{word}: " + ", ".join(f"{name} {_half(less[name])}" for name in names))
    return "; ".join(parts)


def _half(one: Interval) -> str:
    return f"{one.mean:+.2f} ± {(one.high - one.low) / 2:.2f}"


def biases(found: Cells, turns: int) -> str:
    """Return each correction's bias at a number of turns, by sampler."""
    own = {name: row for (name, number), row in found.items() if number == turns}
    labels = [*dict.fromkeys(label for row in own.values() for label in row)]
    rows = [
        [f"`{name}`", *(shown(row[label].bias) if label in row else "-" for label in labels)]
        for name, row in own.items()
    ]
    return table(["sampler", *(f"`{label}`" for label in labels)], rows)


def compared(own: Mapping[str, Figures]) -> dict[str, Interval]:
    """Return each correction's success less that of none, seed by seed.

    The intervals hold for all comparisons of a cell together (Bonferroni).
    """
    from scipy.stats import t

    others = [name for name in own if name != AGAINST]
    less = {name: np.subtract(own[name].success, own[AGAINST].success) for name in others}
    result = {}
    for name, differences in less.items():
        seeds = len(differences)
        wide = t.ppf(1 - 0.025 / len(others), seeds - 1) * differences.std(ddof=1) / np.sqrt(seeds)
        center = float(differences.mean())
        result[name] = Interval(center, center - float(wide), center + float(wide))
    return result


def whole(found: Cells) -> str:
    """Return a table of all figures for each cell."""
    parts = []
    for (name, turns), own in found.items():
        head = f"## {name}, {turns} turns\n\n{SAMPLERS[name].does}; {_nats(own)} nats a token.\n"
        parts.append(f"{head}\n{table(HEAD, [*_rows(own)])}")
    return "\n".join(parts)


HEAD = ("correction", "bias", "cosine", "variance", "tokens that count", "success", "less that of none")


def _rows(own: Mapping[str, Figures]) -> Iterable[list[str]]:
    less = compared(own) if AGAINST in own else {}
    for name, one in own.items():
        success = estimated(mean(one.success), len(one.success), DRAWS)
        intervals = [*map(shown, (one.bias, one.cosine, one.variance))]
        difference = shown(less[name]) if name in less else "-"
        yield [f"`{name}`", *intervals, f"{one.kept:.0%}", shown(success), difference]
