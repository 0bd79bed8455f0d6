"""Results of several settings side by side as Markdown, and the whole table of each.

    python -m experiments.credit_quality.comparison docs/credit_quality/*.json

docs/credit_quality.md has the first part, docs/credit_quality/tables.md all of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from turngrid.experiments.credit_quality.intervals import Interval
from turngrid.experiments.credit_quality.page import summary
from turngrid.experiments.credit_quality.results import Results, markdown, shown, table

METHODS = ("grpo", "gigpo", "hgpo", "mt_grpo", "salt", "ppo", "turn_ppo", "graft", "graft:state=history")
BETTER = METHODS[-2:]  # how much better than the method that results are against
Settings = Mapping[str, Results]


def text(found: Settings) -> str:
    """Return settings, both correlations, and all tables."""
    whole = "".join(f"## {name}\n\n{summary(one)}\n\n{markdown(one)}\n" for name, one in found.items())
    parts = (settings(found), "r", compared(found, "r"), "r_inside", compared(found, "r_inside"), whole)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def settings(found: Settings) -> str:
    """Return what was measured of each setting."""
    return table(
        ["setting", "won", "games", "samples", "k", "turns", "reliability", "ceiling of a constant"],
        [
            [
                f"`{name}`",
                f"{one.about['won']:.0%}",
                *(str(one.about[key]) for key in ("tasks", "samples", "k", "turns")),
                *(shown(one.truth[key]) for key in ("reliability", "ceiling")),
            ]
            for name, one in found.items()
        ],
    )


def compared(found: Settings, measure: str) -> str:
    """Return a row for each setting, a column for each method, and for ``r`` paired differences."""
    better = BETTER if measure == "r" else ()  # GRPO's ``r_inside`` is 0
    (against,) = {one.against for one in found.values()}
    return table(
        ["setting", *(f"`{name}`" for name in METHODS), *(f"`{name}` less `{against}`" for name in better)],
        [
            [
                f"`{setting}`",
                *(_short(one.methods[measure].get(name)) for name in METHODS),
                *(_short(one.differences[measure][name]) for name in better),
            ]
            for setting, one in found.items()
        ],
    )


def _short(interval: Interval | None) -> str:
    """Return the estimate with half of its interval."""
    if interval is None:
        return "-"
    return f"{interval.estimate:.2f} ± {interval.half:.2f}".replace("-0.00 ", "0.00 ")


if __name__ == "__main__":
    print(text({Path(file).stem: Results.read(Path(file)) for file in sys.argv[1:]}), end="")
