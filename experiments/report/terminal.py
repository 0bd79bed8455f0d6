"""A report's table and comparisons as plain text, printed at the end of a sweep or grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.table import Table

from turngrid.experiments.evaluation.tables import p_value, plain_text
from turngrid.experiments.report.cells import TableCell, table_cells
from turngrid.experiments.report.comparisons import Comparison, differences, verdicts
from turngrid.experiments.report.gather import Subject

WIDTH = 160
CAPTION = "% of test games, mean over seeds [95 % interval over games]"
PAIRED = (
    "differences in points, paired by seed and game; "
    "intervals and p are over games and seeds, not corrected for their number"
)


def text(subject: Subject) -> str:
    """Return success of each setting, followed by the verdicts or else all differences."""
    sweep, runs = subject.sweep, subject.runs
    counts = Counter(run.state for run in runs)
    title = f"{sweep.title}: {len(runs)} runs, {', '.join(f'{count} {state}' for state, count in counts.items())}"
    cells = table_cells(runs, sweep.layout, None)
    tables = [_table(["setting", *sweep.layout.columns], [[row[0].row, *map(_cell, row)] for row in cells], CAPTION)]
    tables[0].title, tables[0].title_justify = title, "left"
    compared = verdicts(sweep, runs) if sweep.takeaways else differences(runs)
    if compared:
        head = ["claim", "verdict"] if sweep.takeaways else ["difference", *["on"] * bool(compared[0].detail)]
        tables.append(_table([*head, "points [95 %]", "by seed", "p"], map(_figures, compared), PAIRED))
    return plain_text(tables, WIDTH).rstrip()


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> Table:
    table = Table(*head, caption=caption, caption_justify="left")
    table.columns[0].overflow = "fold"
    for row in rows:
        table.add_row(*row)
    return table


def _cell(cell: TableCell) -> str:
    return f"{cell.estimate.interval.percent()}, {cell.estimate.seeds}" if cell.estimate else cell.why


def _figures(one: Comparison) -> tuple[str, ...]:
    head = tuple(filter(None, (one.name, one.word or one.detail)))
    if one.contrast is None:
        return (*head, one.why, "", "")
    bounds, by_seed = one.contrast.interval, one.contrast.by_seed.values()
    points = f"{100 * bounds.mean:+.1f} [{100 * bounds.low:+.1f}, {100 * bounds.high:+.1f}]"
    return (*head, points, ", ".join(f"{100 * share:+.1f}" for share in by_seed), p_value(one.contrast.p))
