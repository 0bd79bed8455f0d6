"""Lists of a command line, tables in Markdown, intervals and durations in cells and in JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from turngrid.records.statistics import Interval


def listed(words: str) -> list[str]:
    """Return the words of ``[a,b]``."""
    return [word.strip() for word in words.strip("[]").split(",") if word.strip()]


def shown(interval: Interval) -> str:
    if not math.isfinite(interval.mean):
        return "-"
    bounds = f" ({interval.low:.2f} to {interval.high:.2f})" if math.isfinite(interval.low) else ""
    return f"{interval.mean:.2f}{bounds}".replace("-0.00", "0.00")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def duration(seconds: float) -> str:
    """Return ``4 min 56 s`` or ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def rounded(value: Any) -> Any:
    """Round floats to four digits; NaN and infinity become null, tuples lists."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return (round(value, 4) if math.isfinite(value) else None) if isinstance(value, float) else value


def interval(bounds: Mapping[str, float | None]) -> Interval:
    """Return an interval that was written by ``rounded``."""
    return Interval(**{key: math.nan if item is None else item for key, item in bounds.items()})
