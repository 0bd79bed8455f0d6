"""The report's statistics against hand-worked values."""

from math import sqrt

import numpy as np
import pytest

from turngrid.experiments.report.comparisons import interval_and_p


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
