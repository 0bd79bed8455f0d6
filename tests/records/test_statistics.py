"""Intervals against published and exactly known values."""

import itertools

import numpy as np
import pytest

from turngrid.records.statistics import mean_interval, pass_at_k, sign_flip, success_interval, wilson


@pytest.mark.parametrize(
    ("successes", "games", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_published(successes: int, games: int, low: float, high: float) -> None:
    """Newcombe (1998), Statistics in Medicine 17, table I, method 3."""
    interval = wilson(successes, games)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)
    assert interval.mean == successes / games


def test_bootstrap_of_one_sample_has_binomial_quantiles() -> None:
    """Of 4 wins in 10 games, a resample's wins are Binomial(10, 0.4): its 2.5 and 97.5 % quantiles
    are 1 and 7."""
    interval = mean_interval([1] * 4 + [0] * 6)
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.4, 0.1, 0.7))


def test_samples_of_two_evaluation_sets_are_drawn_apart() -> None:
    """Each has a variance of 1/4 a game and half of the weight."""
    games = np.array([0.0, 0.5] * 20)
    both = mean_interval(games, games)
    assert both.mean == 0.5
    assert (both.high - both.low) / 3.92 == pytest.approx((2 / 16 / 40) ** 0.5, rel=0.03)


@pytest.mark.parametrize(
    ("lowest", "value", "low", "high"),
    [
        (-1, 0, -0.1611, 0.1611),
        (-1, 1, 1 - 0.1611, 1),
        (0, 0, 0, 0.1611),
        (0, 0.5, 0.3389, 0.6611),
        (0, 1, 1 - 0.1611, 1),
    ],
)
def test_what_all_games_share_still_leaves_doubt(lowest: float, value: float, low: float, high: float) -> None:
    """Wilson's bound of 0 in 20 is 0.1611 (Newcombe, 1998): other games could differ so."""
    found = mean_interval([value] * 20, lowest=lowest)
    assert (found.mean, found.low, found.high) == pytest.approx((value, low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [
        (7, 1, 0.0703),  # Bentur et al. (2009), as worked by Fagerland et al. (2013), BMC Med. Res. Methodol. 13:91
        # Armitage and Berry (1994), p. 127: two media for tubercle bacilli; worked by StatsDirect
        (2, 12, 0.0129),
        (5, 5, 1.0),
        (0, 0, 1.0),
    ],
)
def test_mcnemar_as_published(gained: int, lost: int, p: float) -> None:
    """Of single samples the sign-flip test is McNemar's."""
    assert sign_flip([1] * gained + [-1] * lost + [0] * 5) == pytest.approx(p, abs=5e-5)
    assert sign_flip([1] * lost + [-1] * gained) == sign_flip([1] * gained + [-1] * lost)


def test_mcnemar_of_many_games_stays_exact() -> None:
    """2 / 2^1100 is less than any float, but the way there must not overflow."""
    assert sign_flip([1] * 1000) == 2.0**-999
    assert sign_flip([1] * 1100) == 0.0


def test_sign_flips_by_enumeration() -> None:
    differences = [3, -1, 2, 2, 0, -1, 4]
    flips = itertools.product((1, -1), repeat=len(differences))
    sums = [sum(sign * abs(d) for sign, d in zip(signs, differences, strict=True)) for signs in flips]
    assert sign_flip(differences) == sum(abs(total) >= 9 for total in sums) / len(sums)


@pytest.mark.parametrize(("samples", "wins"), [(4, 0), (4, 1), (5, 2), (6, 6), (1, 1)])
def test_pass_at_k_is_the_share_of_subsets_with_a_win(samples: int, wins: int) -> None:
    outcomes = [True] * wins + [False] * (samples - wins)
    for k in range(1, samples + 1):
        subsets = list(itertools.combinations(outcomes, k))
        assert pass_at_k(samples, wins, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_plays_of_one_game_count_as_one_game() -> None:
    """The same outcome four times says no more than once: the interval does not shrink."""
    games = np.random.default_rng(2).integers(0, 2, 40).tolist()
    assert success_interval([games] * 4) == mean_interval(games)
