"""docs/reasoning.md: its table is that of its runs."""

from pathlib import Path

import pytest

from turngrid.experiments.reasoning import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reasoning.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(sorted(map(str, (DOCS / "reasoning").glob("*.jsonl")))) == 0
    assert capsys.readouterr().out in PAGE
