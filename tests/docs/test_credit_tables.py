"""``python -m benchmarks.credit_tables``: gains of finished runs, and rank correlations."""

import math
from pathlib import Path

import pytest
from finished_run import ONE_OF_TWO

from benchmarks.credit_tables import GAIN, MEAN, gains_of, predictions, rank_correlation
from turngrid.experiments.credit_quality.results import Results
from turngrid.experiments.evaluation.result import RunResult, StageResult
from turngrid.records.metrics import append_metrics
from turngrid.records.statistics import Interval

RATED = {"grpo": 0.3, "gigpo": 0.35, "salt": 0.4, "graft": 0.6, "hgpo": 0.1}
WON = {"grpo": 110, "gigpo": 105, "salt": 120, "graft": 130, "hgpo": 90}  # of 200 games, base 100
ROW = {name: Interval(value, value - 0.1, value + 0.1) for name, value in RATED.items()}
RESULTS = Results({}, {}, {"r": ROW}, "grpo", {"r": ROW})


def finished(folder: Path, algo: str, seed: int, won: int, stages: str = "base rl") -> Path:
    run = folder / f"{algo}-{seed}-{stages}"
    run.mkdir()
    successes = {"base": 100, "sft": 100, "rl": won}
    made = [
        StageResult(name, name, **{**ONE_OF_TWO, "successes": successes[name], "games": 200}) for name in stages.split()
    ]
    RunResult(run.name, str(run), seed, made, 0.0).write(run)
    for step, share in enumerate((0.0, won / 100), 1):  # its mean is the success at the end
        append_metrics(run / "rl/metrics.jsonl", step, {"success/train": share})
    name, _, state = algo.partition(":state=")
    (run / "config.yaml").write_text(f"algo: {{name: {name}, state: {state or 'null'}}}\nseed: {seed}\n")
    return run


def test_gains_are_of_seeds_and_measures_by_rank(tmp_path: Path) -> None:
    runs = [finished(tmp_path, name, seed, won + 2 * seed) for name, won in WON.items() for seed in (1, 2, 3)]
    printed = predictions(RESULTS, gains_of(runs))
    # graft gained 16, 17 and 18 points: 17, and 4.303 (Student, 2 degrees) x 1 / sqrt(3) = 2.48
    row = (
        "| `graft` | 3 | 17.0 (14.5 to 19.5) | 10.0 (10.0 to 10.0) "
        "| 67.0 (64.5 to 69.5) | 10.0 (10.0 to 10.0) | 0.60 (0.50 to 0.70) |"
    )
    assert row in printed
    assert [line.split("`")[1] for line in printed.splitlines()[2:7]] == ["graft", "salt", "grpo", "gigpo", "hgpo"]
    gains = gains_of([finished(tmp_path, "gigpo:state=history", 1, 100)])
    assert gains == {GAIN: {"gigpo:state=history": {"1": 0}}, MEAN: {"gigpo:state=history": {"1": 0.5}}}
    with pytest.raises(AssertionError, match="is no finished run of RL alone"):
        gains_of([finished(tmp_path, "grpo", 1, 100, "base sft rl")])


def test_spearmans_by_hand() -> None:
    """Ranks 2 3 4 5 1 and 3 2 4 5 1: 1 - 6 (1 + 1) / (5 x 24) = 0.9; z = 1.472, and its error
    sqrt(1.405 / 2) = 0.838."""
    found = rank_correlation(list(RATED.values()), list(WON.values()))
    assert found.mean == pytest.approx(0.9)
    assert found.low == pytest.approx(math.tanh(1.4722 - 1.96 * 0.8382), abs=1e-3)
    assert found.high == pytest.approx(math.tanh(1.4722 + 1.96 * 0.8382), abs=1e-3)
    assert rank_correlation([1.0, 2, 3, 4], [1.0, 2, 3, 4]).mean == pytest.approx(1)
