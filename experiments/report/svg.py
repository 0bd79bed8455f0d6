"""Matplotlib's figures as SVG that lives inside the page: its letters, and its colours in light and dark."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERIES = tuple(f"#0{place}0{place}f{place}" for place in range(8))  # stand-ins, replaced by the page's own colours
INK, GRID, PAPER = "#010203", "#020304", "#030405"
COLOURS = {
    INK: "currentColor",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    **{stand_in: f"var(--s{place})" for place, stand_in in enumerate(SERIES)},
}
PIXELS_AN_INCH = 112
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.edgecolor": GRID,
    "lines.linewidth": 1.8,
}


def figure(width: float, height: float, name: str) -> Figure:
    """An empty figure, sizes in inches. To be made, drawn and turned into SVG inside ``style(name)``."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(made)
    made.set_label(name)
    return made


def style(name: str) -> AbstractContextManager[None]:
    """A context in which figures take our style; ``name`` keeps the ids of several SVGs in one page apart."""
    from matplotlib import rc_context

    return rc_context({**STYLE, "svg.hashsalt": name})


def inline(made: Figure, title: str) -> str:
    """The ``<svg>`` element, as wide as what is around it; ``title`` is what a screen reader says."""
    text = StringIO()
    made.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    body = text.getvalue()
    body = body[body.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'^<svg [^>]*?viewBox="([^"]+)"[^>]*>', _head(made, title), body, count=1)
    body = re.sub(r"font-family: [^;\"]+;?|font-family=\"[^\"]+\"", "", body)
    body = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", body)
    for stand_in, colour in COLOURS.items():
        body = body.replace(stand_in, colour)
    return body


def _head(made: Figure, title: str) -> str:
    """The opening tag. Letters stay near the size of the page's: no figure is shown much larger than it was made."""
    safe = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\\", "")
    width = round(PIXELS_AN_INCH * made.get_figwidth())
    named = f'data-chart="{made.get_label()}" aria-label="{safe}" style="max-width: {width}px"'
    return rf'<svg xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="\1" role="img" class="chart" {named}>'
