"""The report's statistics against hand-worked values, and against what rliable 1.2.0 gave for the
same scores."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from report_sweep import SweepMaker, wins

from turngrid.experiments.report.comparisons import Contrast, Word, interval_and_p, judged
from turngrid.experiments.report.reliability import improvement, iqm, reliability, scores_of
from turngrid.records.statistics import Interval

FIRST = np.array([[0.5, 0.1], [0.6, 0.2], [0.4, 0.15], [0.55, 0.3]])
SECOND = np.array([[0.45, 0.1], [0.5, 0.05], [0.3, 0.25]])


def test_iqm_drops_a_quarter_at_either_end() -> None:
    """Of 0.1 .15 .2 .3 .4 .5 .55 .6 the middle four: 1.4 / 4. Of six scores one goes at either end:
    1.1 / 4.

    The intervals are those of rliable's ``get_interval_estimates`` with 20,000 resamples.
    """
    first, second = iqm(FIRST), iqm(SECOND)
    assert (first.mean, first.low, first.high) == pytest.approx((0.35, 0.2875, 0.4125), abs=0.01)
    assert (second.mean, second.low, second.high) == pytest.approx((0.275, 0.1875, 0.3625), abs=0.01)
    assert (first.mean, second.mean) == pytest.approx((0.35, 0.275))
    assert iqm(np.array([[0.1], [0.2], [0.6]])).mean == pytest.approx(0.3)  # three scores: none can be dropped


def test_improvement_counts_pairs_of_runs_task_by_task() -> None:
    """Task 1: 0.5 beats 2 of (.45 .5 .3) and ties one, 0.6 beats 3, 0.4 beats 1, 0.55 beats 3: 9.5
    of 12.

    Task 2: 0.1 beats 1 and ties one, 0.2 beats 2, 0.15 beats 2, 0.3 beats 3: 8.5 of 12. The
    interval is rliable's.
    """
    better = improvement(FIRST, SECOND)
    assert better.mean == pytest.approx((9.5 + 8.5) / 24)
    assert (better.low, better.high) == pytest.approx((0.4375, 0.979), abs=0.03)
    assert improvement(SECOND, FIRST).mean == pytest.approx(6 / 24)
    assert improvement(FIRST, FIRST).mean == pytest.approx(0.5)


def test_runs_are_drawn_within_a_task_only() -> None:
    """Equal runs on unlike tasks: any draw has the same scores."""
    found = iqm(np.array([[0.1, 0.9], [0.1, 0.9]]))
    assert (found.mean, found.low, found.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("by_seed", "over_games", "games", "half"),
    [
        # standard error 0.1 / sqrt(3), t(0.975, 2) = 4.303 (any table)
        ([0.1, 0.2, 0.3], 0.0, 200, 4.303 * 0.1 / sqrt(3)),
        # seeds that agree, 0.0025 over 101 games: standard error 0.05, t(0.975, 100) = 1.984
        ([0.2, 0.2], 0.0025, 101, 1.984 * 0.05),
        # a = 0.0004, b = 0.0012 / 3 (three seeds): Satterthwaite's freedom is
        # 4e-4^2 * 4 / (4e-4^2 (1/100 + 1/2)) = 7.843; t(0.975, 7.843) = 2.314
        ([0.1 - sqrt(0.0012), 0.1, 0.1 + sqrt(0.0012)], 0.0004, 101, 2.314 * sqrt(0.0008)),
        # without any spread: Wilson's upper bound of 0 in 20 (Newcombe, 1998)
        ([0.0, 0.0], 0.0, 20, 0.1611),
    ],
)
def test_an_interval_is_students_over_seeds_and_games(
    by_seed: list[float], over_games: float, games: int, half: float
) -> None:
    found, _ = interval_and_p(by_seed, over_games, games)
    mean = np.mean(by_seed)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), abs=2e-4)


def test_p_belongs_to_the_interval() -> None:
    """At p = .05 the interval ends at zero. Without any spread: of 2^4 signs of four equal
    differences, 2 are as large."""
    bounds, _ = interval_and_p([0.1, 0.2, 0.3], 0.004, 20)
    shifted = [share - bounds.low for share in (0.1, 0.2, 0.3)]
    assert interval_and_p(shifted, 0.004, 20)[1] == pytest.approx(0.05)
    assert (interval_and_p([1.0, 1.0], 0.0, 4)[1], interval_and_p([0.0, 0.0], 0.0, 4)[1]) == (2 / 2**4, 1.0)


def test_bounds_stay_where_differences_can_be() -> None:
    found, _ = interval_and_p([0.7, 0.9], over_games=0.0, games=50)
    assert (found.low, found.high) == pytest.approx((-0.4706, 1.0), abs=1e-3)  # 0.8 - 12.706 * 0.1
    assert interval_and_p([0.7, 0.9], over_games=0.0, games=50, limit=2)[0].high == pytest.approx(2)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.01, 0.2, Word.HOLDS),
        (-0.01, 0.2, Word.NOT_ENOUGH),
        (0.0, 0.2, Word.NOT_ENOUGH),
        (-0.2, -0.01, Word.DOES_NOT_HOLD),
    ],
)
def test_a_verdict_goes_by_the_interval(low: float, high: float, word: Word) -> None:
    found = Contrast(Interval((low + high) / 2, low, high), 0.5, {0: 0.1, 1: 0.1}, games=200, settings=1)
    assert judged(found)[0] is word


def test_a_method_counts_the_seeds_that_all_its_tasks_have(tmp_path: Path) -> None:
    """Seed 2 lacks the second task; the task is no part of the method's name."""
    maker = SweepMaker(tmp_path)
    for seed in range(3):
        maker.run({"rl": {"easy": wins(10 + seed)}}, seed, algo="ppo", task="easy")
    for seed in range(2):
        maker.run({"rl": {"hard": wins(2)}}, seed, algo="ppo", task="hard")
    (table,) = scores_of(maker.subject({"all": {}}, {"last": {}}).runs).values()
    assert table.to_numpy().tolist() == [[0.5, 0.1], [0.55, 0.1]]


def test_methods_without_a_common_task_have_no_statistics(tmp_path: Path) -> None:
    maker = SweepMaker(tmp_path)
    for seed in range(3):
        maker.run({"rl": {"easy": wins(10)}}, seed, algo="ppo", task="easy")
        maker.run({"rl": {"hard": wins(2)}}, seed, algo="grpo", task="hard")
    assert reliability(maker.subject({"all": {}}, {"last": {}}).runs) is None
