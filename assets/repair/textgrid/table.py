"""Laying out rows of cells as a plain-text table."""

from __future__ import annotations

from collections.abc import Sequence

from wrapping import wrap

ALIGNMENTS = {"left": str.ljust, "right": str.rjust, "centre": str.center}


class Table:
    """A header, rows of as many cells, and an alignment a column (``left`` unless said otherwise)."""

    def __init__(self, header: Sequence[str], align: Sequence[str] = (), max_width: int = 20) -> None:
        for name in align:
            if name not in ALIGNMENTS:
                raise ValueError(f"unknown alignment {name!r}")
        self.header = list(header)
        self.align = [*align, *["left"] * (len(self.header) - len(align))]
        self.max_width = max_width
        self.rows: list[list[str]] = []

    def add(self, *cells: object) -> None:
        """One more row; None shows as an empty cell."""
        if len(cells) != len(self.header):
            raise ValueError(f"a row has {len(self.header)} cells, not {len(cells)}")
        self.rows.append(["" if cell is None else str(cell) for cell in cells])

    def widths(self) -> list[int]:
        """The width of each column: its widest cell, but at most ``max_width``."""
        columns = zip(self.header, *self.rows, strict=True)
        return [min(max(len(cell) for cell in column), self.max_width) for column in columns]

    def render(self) -> str:
        """The header, a line of dashes, and the rows; cells that are too wide go on in further lines."""
        widths = self.widths()
        lines = self._lines(self.header, widths)
        lines.append("-+-".join("-" * width for width in widths))
        for row in self.rows:
            lines.extend(self._lines(row, widths))
        return "\n".join(lines)

    def _lines(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        cells = [wrap(cell, width) if width else [] for cell, width in zip(row, widths, strict=True)]
        height = max(1, *(len(cell) for cell in cells))
        lines = []
        for index in range(height):
            texts = [cell[index] if index < len(cell) else "" for cell in cells]
            padded = [
                ALIGNMENTS[align](text, width) for text, width, align in zip(texts, widths, self.align, strict=True)
            ]
            lines.append(" | ".join(padded).rstrip())
        return lines


def columns(items: Sequence[str], width: int, gap: int = 2) -> list[str]:
    """The items in as few lines as fit into ``width``, filled column after column, as ``ls`` does."""
    if not items:
        return []
    cell = max(len(item) for item in items) + gap
    across = max(1, (width + gap) // cell)
    height = -(-len(items) // across)
    lines = []
    for row in range(height):
        line = "".join(item.ljust(cell) for item in items[row::height])
        lines.append(line.rstrip())
    return lines
