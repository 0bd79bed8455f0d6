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
BETTER = METHODS[-2:]  # difference to the method that all others are compared with
Settings = Mapping[str, Results]


def text(results: Settings) -> str:
    """Return the settings, both correlations, and the full table of each setting."""
    whole = "".join(f"## {name}\n\n{summary(one)}\n\n{markdown(one)}\n" for name, one in results.items())
    parts = (settings(results), "r", compared(results, "r"), "r_inside", compared(results, "r_inside"), whole)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def settings(results: Settings) -> str:
    """Return a table of the measured settings."""
    return table(
        ["setting", "won", "games", "samples", "k", "turns", "reliability", "ceiling of a constant"],
        [
            [
                f"`{name}`",
                f"{one.about['won']:.0%}",
                *(str(one.about[key]) for key in ("tasks", "samples", "k", "turns")),
                *(shown(one.truth[key]) for key in ("reliability", "ceiling")),
            ]
            for name, one in results.items()
        ],
    )


def compared(results: Settings, measure: str) -> str:
    """Return a table: a row for each setting, a column for each method; for ``r`` paired
    differences too.
    """
    better = BETTER if measure == "r" else ()  # GRPO's ``r_inside`` is 0
    (against,) = {one.against for one in results.values()}
    return table(
        ["setting", *(f"`{name}`" for name in METHODS), *(f"`{name}` less `{against}`" for name in better)],
        [
            [
                f"`{setting}`",
                *(_short(one.methods[measure].get(name)) for name in METHODS),
                *(_short(one.differences[measure][name]) for name in better),
            ]
            for setting, one in results.items()
        ],
    )


def _short(interval: Interval | None) -> str:
    """Return the estimate with half of its interval's width."""
    if interval is None:
        return "-"
    return f"{interval.estimate:.2f} ± {interval.half:.2f}".replace("-0.00 ", "0.00 ")


if __name__ == "__main__":
    print(text({Path(file).stem: Results.read(Path(file)) for file in sys.argv[1:]}), end="")
