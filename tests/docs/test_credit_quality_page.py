"""docs/credit_quality.md: its figures are those of the committed results, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.credit_quality.__main__ import Options
from experiments.credit_quality.gradients import ALL
from experiments.credit_quality.methods import STANDARD
from experiments.credit_quality.page import html, summary
from experiments.credit_quality.results import Results, markdown

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/credit_quality.md").read_text(encoding="utf-8")
FOUND = Results.read(ROOT / "docs/credit_quality.json")


def test_the_table_is_that_of_the_results() -> None:
    assert markdown(FOUND) in PAGE
    assert summary(FOUND).replace(" ", "") in PAGE.replace("\n", "").replace(" ", "")
    assert set(FOUND.methods["r"]) == set(STANDARD)


def test_what_was_measured_reaches_what_the_command_is_for() -> None:
    assert FOUND.truth["reliability"].estimate >= 0.6
    assert (FOUND.about["tasks"], FOUND.about["samples"], FOUND.about["k"]) == (20, 8, 16)
    assert FOUND.about["cpu_seconds"] <= 600  # of two cores in five minutes


def test_every_measure_and_option_is_told() -> None:
    assert all(f"| `{measure}` |" in PAGE for measure in ALL)
    options = set(re.findall(r"`(\w+)=`", PAGE)) - {"methods"}
    assert {name for name in options if hasattr(Options(), name)} >= {"k", "screen"}


def test_the_page_of_the_results_draws_every_method() -> None:
    drawn = html(FOUND)
    assert drawn.count("<svg") == 1 and all(f"<code>{name}</code>" in drawn for name in FOUND.methods["r"])
    assert FOUND.methods["r"]["grpo"].estimate == pytest.approx(FOUND.methods["r"]["grpo"].low, abs=0.3)
