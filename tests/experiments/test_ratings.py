"""Bradley-Terry ratings by hand: two players, a chain, openings as the unit, matches of a run."""

from math import log10

import numpy as np
import pytest
from test_matrix import episode, evaluation_set

from turngrid.experiments.evaluation.ratings import fitted, rated, ratings_of
from turngrid.experiments.evaluation.tables import plain_text, ratings_table
from turngrid.rollouts.episode import Outcome
from turngrid.tasks.evaluation_sets import EvaluationSetting

WON, DRAWN, LOST = Outcome.WON, Outcome.DRAWN, Outcome.LOST


def apart(points: float, matches: int) -> float:
    """The difference of two players who only met each other, and drew one match more."""
    share = (points + 0.5) / (matches + 1)
    return 400 * log10(share / (1 - share))


def test_two_players_and_a_chain_by_hand() -> None:
    points = np.zeros((3, 3))
    points[0, 1], points[1, 0] = 7, 2
    assert fitted(points[:2, :2], 1) == pytest.approx([1000 + 400 * log10(3), 1000])  # 7.5 of 10
    points[2, 0], points[0, 2] = 4, 0  # won every match
    assert fitted(points, 1) == pytest.approx([1190.84850, 1000, 1190.84850 + apart(4, 4)], abs=1e-5)


def test_each_player_is_expected_to_score_what_it_scored() -> None:
    """The equations of the maximum, for players who all met; matches against itself say nothing."""
    points = np.random.default_rng(0).integers(0, 9, (4, 4)).astype(float)
    ratings = fitted(points, 2)
    expected = 1 / (1 + 10 ** ((ratings[None] - ratings[:, None]) / 400))
    apart = (points - np.diag(np.diag(points))) + 0.5 * (1 - np.eye(4))
    assert (apart.sum(1) - ((apart + apart.T) * expected).sum(1)) == pytest.approx(0, abs=1e-6)
    order = [3, 1, 0, 2]
    assert fitted(points[order][:, order], 3) == pytest.approx(ratings[order])


def test_openings_are_drawn_again() -> None:
    """Two openings, one won and one lost: a quarter of the draws has one of them twice."""
    points = np.zeros((2, 2, 2))
    points[0, 0, 1] = points[1, 1, 0] = 2
    policy, anchor = rated(points, 1)
    assert (policy.mean, policy.low, policy.high) == pytest.approx((1000, 1000 + apart(0, 4), 1000 + apart(4, 4)))
    assert (anchor.mean, anchor.low, anchor.high) == (1000, 1000, 1000)


def test_the_matches_of_a_run() -> None:
    """Two openings, both seats, two opponents; ``random`` is a policy and an opponent."""
    ends = {
        "random": {"rl": (WON, WON, DRAWN, LOST), "random": (WON, LOST, WON, WON)},
        "exact": {"rl": (LOST, DRAWN, LOST, LOST), "random": (LOST,) * 4},
    }
    of_set = evaluation_set(games=2)
    settings = [EvaluationSetting("", of_set, 0.4, 2, name) for name in ends]
    ratings = ratings_of(
        settings, lambda item: {name: list(map(episode, own)) for name, own in ends[item.opponent].items()}
    )
    assert [(one.policy, one.matches) for one in ratings] == [("rl", 8), ("random", 8), ("exact", 8)]
    points = np.array([[0, 2.5, 0.5], [1.5, 0, 0], [3.5, 4, 0]])
    assert [one.rating for one in ratings] == pytest.approx(fitted(points, 1))
    shown = [line.split("│") for line in plain_text(ratings_table(ratings)).splitlines() if "d2" in line]
    assert [line[1].strip() for line in shown] == ["exact", "after RL", "random"]
    assert shown[2][3].strip() == "1000 [1000, 1000]"
    assert ratings_of(settings[1:], lambda item: {"rl": list(map(episode, ends["exact"]["rl"]))}) == []
    assert ratings_of([EvaluationSetting("", of_set, 0.4, 2)], lambda _: {}) == [] and ratings_table([]) == []
