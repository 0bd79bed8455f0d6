"""Does a rating tell what a method gains? ``python -m experiments.credit_quality.predicts`` on
finished runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from finished_run import ONE_OF_TWO

from turngrid.experiments.credit_quality.intervals import Interval
from turngrid.experiments.credit_quality.predicts import (
    ABOUT,
    GAIN,
    MEAN,
    METRICS,
    TRAINED,
    main,
    markdown,
    of_mean,
    predicted,
    rank_correlation,
)
from turngrid.experiments.credit_quality.results import Results
from turngrid.experiments.evaluation.result import RunResult, StageResult
from turngrid.records.metrics import MetricsLog

RATED = {"grpo": 0.3, "gigpo": 0.35, "salt": 0.4, "graft": 0.6, "hgpo": 0.1}
WON = {"grpo": 110, "gigpo": 105, "salt": 120, "graft": 130, "hgpo": 90}  # of 200 games, base 100


def results(folder: Path) -> Path:
    row = {name: Interval(value, value - 0.1, value + 0.1) for name, value in RATED.items()}
    alike = dict.fromkeys(RATED, Interval(math.nan, math.nan, math.nan))
    about = {"env": "textworld", "task": "w2-o3-q4", "policy": "base tiny"}
    Results(about, {}, {"r": row, "adam": alike}, "grpo", {"r": row}).write(folder)
    return folder / "results.json"


def finished(
    folder: Path, algo: str, seed: int, won: int, task: str = "w2-o3-q4", model: str = "tiny", sft: bool = False
) -> str:
    run = folder / f"{algo}-{seed}-{task}-{model}-{sft}"
    run.mkdir()
    stages = [
        StageResult("base", "tiny", **{**ONE_OF_TWO, "successes": 100, "games": 200}),
        StageResult("rl", "rl/model", **{**ONE_OF_TWO, "successes": won, "games": 200}),
    ]
    stages += [StageResult("sft", "sft/model", **ONE_OF_TWO)] * sft
    RunResult(run.name, str(run), seed, stages, 0.0).write(run)
    for step, share in enumerate((0.0, won / 100), 1):  # its mean is the success at the end
        MetricsLog(run / METRICS).append(step, {TRAINED: share})
    name, _, state = algo.partition(":state=")
    config = (
        f"algo: {{name: {name}, state: {state or 'null'}}}\n"
        f"env: {{name: textworld, task: {task}}}\n"
        f"model: {{name: {model}}}\n"
    )
    (run / "config.yaml").write_text(config)
    return str(run)


def test_gains_are_of_seeds_and_measures_by_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [finished(tmp_path, name, seed, won + 2 * seed) for name, won in WON.items() for seed in (1, 2, 3)]
    unrated = finished(tmp_path, "gigpo:state=history", 1, 100)
    kept = tmp_path / "gains.json"
    assert main([str(results(tmp_path)), *runs, unrated, f"keep={kept}"]) == 0
    printed = capsys.readouterr()
    assert main([str(results(tmp_path)), str(kept)]) == 0
    assert capsys.readouterr().out == printed.out
    assert "left out: gigpo:state=history" in printed.err
    # graft gained 16, 17 and 18 points: 17, and 4.303 (Student, 2 degrees) x 1 / sqrt(3) = 2.48
    row = (
        "| `graft` | 3 | 17.0 (14.5 to 19.5) | 10.0 (10.0 to 10.0) "
        "| 67.0 (64.5 to 69.5) | 10.0 (10.0 to 10.0) | 0.60 (0.50 to 0.70) |"
    )
    assert row in printed.out
    assert [line.split("`")[1] for line in printed.out.splitlines()[2:7]] == ["graft", "salt", "grpo", "gigpo", "hgpo"]
    assert "adam" not in printed.out


def test_spearmans_by_hand() -> None:
    """Ranks 2 3 4 5 1 and 3 2 4 5 1: 1 - 6 (1 + 1) / (5 x 24) = 0.9; z = 1.472, and its error
    sqrt(1.405 / 2) = 0.838."""
    found = rank_correlation(list(RATED.values()), list(WON.values()))
    assert found.estimate == pytest.approx(0.9)
    assert found.low == pytest.approx(math.tanh(1.4722 - 1.96 * 0.8382), abs=1e-3)
    assert found.high == pytest.approx(math.tanh(1.4722 + 1.96 * 0.8382), abs=1e-3)
    assert rank_correlation([1.0, 2, 3, 4], [1.0, 2, 3, 4]).estimate == pytest.approx(1)
    assert math.isnan(rank_correlation([1.0, 1, 1, 1], [1.0, 2, 3, 4]).estimate)


def test_one_seed_has_no_bounds(tmp_path: Path) -> None:
    assert math.isnan(of_mean([0.1]).low)
    table = Results.read(results(tmp_path))
    gains = {name: {0: won / 200 - 0.5} for name, won in WON.items()}
    assert "| `salt` | 1 | 10.0 | 5.0 |" in markdown(table, {GAIN: gains})
    assert predicted(table, gains)["r"].estimate == pytest.approx(0.9)


def test_a_measure_whose_truth_is_0_predicts_by_its_distance_from_it(tmp_path: Path) -> None:
    table = Results.read(results(tmp_path))
    bias = {"graft": 0.0, "salt": -0.1, "grpo": 0.2, "gigpo": -0.3, "hgpo": 0.4}  # as the methods won
    rated = replace(table, methods={"bias": {name: Interval(value, value, value) for name, value in bias.items()}})
    gains = {name: {0: won / 200 - 0.5} for name, won in WON.items()}
    assert predicted(rated, gains)["bias"].estimate == pytest.approx(1)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("nothing", "name the results"),
        ("no file", "is no file"),
        ("unfinished", "is no finished run of RL alone"),
        ("sft", "is no finished run of RL alone"),
        ("model", "is of textworld, w2-o3-q4, base smollm2_135m, and rated was textworld, w2-o3-q4, base tiny"),
        ("twice", "another run with seed 1"),
        ("task", "is of textworld, w2-o3-q8, base tiny, and rated was textworld, w2-o3-q4, base tiny"),
        ("few", "takes 4 or more"),
        ("no rating", "config.yaml is no results.json of a rating"),
        ("no gains", "config.yaml is no file that keep= has made"),
        ("other gains", "is of textworld, w2-o3-q4, base small, and rated was textworld, w2-o3-q4, base tiny"),
        ("more", "name it alone"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    case: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rating, run = str(results(tmp_path)), finished(tmp_path, "grpo", 1, 100)
    (tmp_path / "empty").mkdir()
    gains, config = tmp_path / "gains.json", f"{run}/config.yaml"
    gains.write_text(json.dumps({ABOUT: ["textworld", "w2-o3-q4", "base small"], GAIN: {}, MEAN: {}}))
    given = {
        "nothing": [rating],
        "no file": ["there/is/none.json", run],
        "unfinished": [rating, str(tmp_path / "empty")],
        "twice": [rating, run, run],
        "task": [rating, finished(tmp_path, "grpo", 1, 100, "w2-o3-q8")],
        "few": [rating, run],
        "no rating": [config, run],
        "no gains": [rating, config],
        "other gains": [rating, str(gains)],
        "more": [rating, str(gains), run],
        "sft": [rating, finished(tmp_path, "grpo", 2, 100, sft=True)],
        "model": [rating, finished(tmp_path, "grpo", 2, 100, model="smollm2_135m")],
    }
    assert main(given[case]) == 2
    assert words in capsys.readouterr().err
