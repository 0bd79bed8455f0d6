"""docs/reasoning.md: its table is that of its runs, and it names every metric, as does the page for
reading a run."""

from pathlib import Path

import pytest
import torch

from turngrid.algorithms.mutual_information import mutual_information
from turngrid.experiments.reasoning import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reasoning.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(sorted(map(str, (DOCS / "reasoning").glob("*.jsonl")))) == 0
    assert capsys.readouterr().out in PAGE


@pytest.mark.parametrize("page", ["reasoning", "reading_a_run"])
def test_each_metric_is_explained(page: str) -> None:
    text, own = (DOCS / f"{page}.md").read_text(encoding="utf-8"), mutual_information(*torch.ones(3, 1, 1).unbind())
    assert not [name for name in (*own, "answers", "tokens") if f"`reasoning/{name}`" not in text]
    assert all(f"`credit/group_std/{name}`" in text or f"`{name}`" in text for name in ("mean", "p10", "p90"))
