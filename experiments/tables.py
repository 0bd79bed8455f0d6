"""Tables in Markdown, and intervals in their cells."""

import math
from collections.abc import Sequence

from turngrid.records.statistics import Interval


def shown(interval: Interval) -> str:
    if not math.isfinite(interval.mean):
        return "-"
    bounds = f" ({interval.low:.2f} to {interval.high:.2f})" if math.isfinite(interval.low) else ""
    return f"{interval.mean:.2f}{bounds}".replace("-0.00", "0.00")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))
