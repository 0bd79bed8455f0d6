"""``python -m benchmarks.reasoning``, and its table in docs/reasoning.md."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.reasoning import COLUMNS, INFORMATION, METRICS, SUCCESS, correlations, main, points
from turngrid.records.metrics import append_metrics
from turngrid.records.resume import RlFolder

STEPS = 12
DOCS = Path(__file__).parents[2] / "docs"


def run(folder: Path, seed: int, steps: int = STEPS) -> str:
    """Success at a step is the mutual information of the step before, all else is noise."""
    draw = np.random.default_rng(seed)
    information = draw.random(steps + 1)
    RlFolder(folder).root.mkdir(parents=True)
    for step in range(steps):
        noise = dict(zip(METRICS, draw.random(len(METRICS)), strict=True))
        own = {INFORMATION: information[step + 1], SUCCESS: information[step]}
        append_metrics(RlFolder(folder).metrics, step + 1, {**noise, **own})
    return str(folder)


def test_spearmans_by_hand() -> None:
    """Ranks of the last column against each other one: the same, turned round, one pair swapped."""
    columns = np.zeros((4, len(METRICS) + 1))
    columns[:, -1], columns[:, METRICS.index(SUCCESS)] = [0.1, 0.2, 0.7, 0.9], [4, 3, 2, 1]
    columns[:, 0], columns[:, 1], columns[:, 2] = [1, 2, 3, 40], [9, 8, 7, 1], [2, 1, 3, 4]
    found = correlations([columns])
    assert found.shape == (len(METRICS), len(COLUMNS))
    assert found[:3, 1] == pytest.approx([1, -1, 0.8]) and found[:3, 0] == pytest.approx([-1, 1, -0.8])
    assert np.isnan(found[3]).all(), "a constant metric has no correlation"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["{0}"], "RUN={0}: intervals are over runs; use two run folders or more"),
        (["{0}", "{1}"], "RUN={1}: 2 steps have reasoning/mutual_information and 3 later ones; use a run of 7 steps"),
        (["{0}", "later=3", "seed=1"], "seed=1: this command takes later= and run folders; use later=3"),
        ([], "intervals are over runs"),
    ],
)
def test_refusals(words: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [run(tmp_path / "long", 1), run(tmp_path / "short", 2, steps=5)]
    assert main([word.format(*folders) for word in words]) != 0
    assert refusal.format(*folders) in capsys.readouterr().err
    assert len(points(Path(folders[0]), 3)) == STEPS - 3


def test_the_pages_table_is_that_of_its_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(sorted(map(str, (DOCS / "reasoning").glob("*.jsonl")))) == 0
    assert capsys.readouterr().out in (DOCS / "reasoning.md").read_text(encoding="utf-8")
