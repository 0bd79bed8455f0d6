"""Intervals against published and exactly known values."""

import math

import numpy as np
import pytest

from experiments.statistics import bootstrap_difference, bootstrap_over_games, wilson


@pytest.mark.parametrize(
    ("successes", "games", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_published(successes: int, games: int, low: float, high: float) -> None:
    """Newcombe (1998), Statistics in Medicine 17, table I, method 3."""
    interval = wilson(successes, games)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)
    assert interval.mean == successes / games


def test_wilson_refuses_no_games() -> None:
    with pytest.raises(ValueError, match="at least one game"):
        wilson(0, 0)


def test_bootstrap_of_one_seed_has_binomial_quantiles() -> None:
    """Of 4 wins in 10 games, a resample's wins are Binomial(10, 0.4): its 2.5 and 97.5 % quantiles are 1 and 7."""
    interval = bootstrap_over_games([[1] * 4 + [0] * 6])
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.4, 0.1, 0.7))


def test_bootstrap_has_the_published_standard_error() -> None:
    """The mouse data of Efron and Tibshirani (1993), table 2.1: mean 86.86, bootstrap standard error 23.36."""
    interval = bootstrap_over_games([[94, 197, 16, 38, 99, 141, 23]], confidence=math.erf(1 / math.sqrt(2)))
    assert interval.mean == pytest.approx(86.86, abs=0.005)
    assert (interval.high - interval.low) / 2 == pytest.approx(23.36, rel=0.03)


def test_seeds_that_agree_on_every_game_do_not_narrow_the_interval() -> None:
    games = np.random.default_rng(1).integers(0, 2, 50).tolist()
    assert bootstrap_over_games([games] * 3) == bootstrap_over_games([games])
    apart = bootstrap_over_games([games * 3])  # as if three seeds had played 150 games
    together = bootstrap_over_games([games] * 3)
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_seeds_of_different_games_are_refused() -> None:
    with pytest.raises(ValueError, match=r"same games; got \[3, 2\]"):
        bootstrap_over_games([[1, 0, 1], [1, 0]])


def test_difference_is_paired_by_game() -> None:
    """Every game gains the same share: no doubt is left, however unlike the games are."""
    before, after = [[0.0, 0.5, 0.2]], [[0.25, 0.75, 0.45]]
    gain = bootstrap_difference(after, before)
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.25, 0.25, 0.25))
    with pytest.raises(ValueError, match="same games"):
        bootstrap_difference([[1.0, 0.0]], before)


def test_percent() -> None:
    assert wilson(81, 263).percent() == "30.8 [25.5, 36.6]"
