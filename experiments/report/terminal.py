"""A report's table and comparisons as plain text, which a sweep or a grid ends with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from experiments.evaluation.tables import p_value, plain_text
from experiments.report.cells import TableCell, table_cells
from experiments.report.contrast import Contrast
from experiments.report.gather import Subject
from experiments.report.pairs import Pair, pairs
from experiments.report.takeaways import Verdict, verdicts

WIDTH = 160
PAIRED = "differences in points, paired by seed and game; intervals and p are over games and seeds, not corrected for their number"


def text(subject: Subject) -> str:
    """Success of each setting, then verdicts or, without claims, differences between all values of what varied."""
    sweep, runs = subject.sweep, subject.runs
    counts = Counter(run.state for run in runs)
    found = ", ".join(f"{count} {state}" for state, count in counts.items())
    tables = [_cells(f"{sweep.title}: {len(runs)} runs, {found}", table_cells(runs, sweep.layout, None))]
    tables += _compared(verdicts(sweep, runs), [] if sweep.takeaways else pairs(runs))
    return plain_text(tables, WIDTH).rstrip()


def _cells(title: str, rows: Sequence[Sequence[TableCell]]) -> Table:
    caption = "% of test games, mean over seeds [95 % interval over games]"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column("setting", overflow="fold")
    for cell in rows[0]:
        table.add_column(cell.column)
    for row in rows:
        table.add_row(row[0].row, *map(_cell, row))
    return table


def _cell(cell: TableCell) -> str:
    if cell.estimate is None:
        return cell.why
    return f"{cell.estimate.interval.percent()}, {cell.estimate.seeds}"


def _compared(claims: Sequence[Verdict], differences: Sequence[Pair]) -> list[Table]:
    rows = [(claim.claim, str(claim.word), claim.contrast, claim.why) for claim in claims]
    rows += [(f"{pair.first} - {pair.second}", pair.evaluation_set, pair.contrast, pair.why) for pair in differences]
    if not rows:
        return []
    table = Table(caption=PAIRED, caption_justify="left")
    named = any(second for _, second, _, _ in rows)
    table.add_column("claim" if claims else "difference", overflow="fold")
    if named:
        table.add_column("verdict" if claims else "on")
    for heading in ("points [95 %]", "by seed", "p"):
        table.add_column(heading)
    for first, second, contrast, why in rows:
        table.add_row(first, *([second] if named else []), *(_figures(contrast) if contrast else (why, "", "")))
    return [table]


def _figures(found: Contrast) -> tuple[str, str, str]:
    low, high = (f"{100 * bound:+.1f}" for bound in (found.interval.low, found.interval.high))
    by_seed = ", ".join(f"{100 * share:+.1f}" for share in found.by_seed.values())
    return f"{100 * found.interval.mean:+.1f} [{low}, {high}]", by_seed, p_value(found.p)
