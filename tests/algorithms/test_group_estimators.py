"""``algo=semi_online`` and ``algo=seeupo``: the specifications' numbers."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import PATHS, by_turn, example_x, taking
from usual import method

from turngrid.algorithms.pools import mean_changes
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns

PLAN = 4
MATCHES = [[1, 1, 1, 1], [1, 0, 1, 1], [0, 1, 0], [1, 1, 0, 1]]
RETURNS = [[1.875, 1.75, 1.5, 1], [1, 0, 1.5, 1], [0, 1, 0], [1.5, 1, 0, 1]]
ADVANTAGES = [
    [1.95493, 2.12490, 1.85942, 0.99340],
    [0.08329, -1.10690, 1.06470, 0.19868],
    [-2.73691, -1.30372, -2.25678],
    [0.69868, 0.28572, -0.66735, 0.19868],
]


def judged(matches: list[list[int]], groups: str = "P") -> Turns:
    """Answers that are not the expert's have no action: they pay nothing."""
    paths = {
        f"{group}_{n}": taking("S" * (len(own) + 1), [match / PLAN for match in own], outcome=1)
        for group in groups
        for n, own in enumerate(matches)
    }
    turns = example_x(paths=paths)
    return replace(turns, named={"plan_share": turns.reward}, parsed=turns.reward > 0)


def estimated(chosen: Any, turns: Turns) -> Estimate:
    return chosen(turns, Tokens(turns.place >= 0, torch.zeros(turns.place.shape)))


def rows(chosen: Any, turns: Turns) -> tuple[list[list[float]], list[list[float]]]:
    found = estimated(chosen, turns)
    return by_turn(found.advantages, turns), by_turn(found.returns, turns)


@pytest.mark.parametrize("groups", ["P", "PQ"])
def test_the_numbers_of_the_specification(groups: str) -> None:
    advantages, returns = rows(method("algo", "semi_online"), judged(MATCHES, groups))
    for row, wanted in zip(returns, RETURNS * len(groups), strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)
    for row, wanted in zip(advantages, ADVANTAGES * len(groups), strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)


def test_an_action_that_is_not_the_experts_pays_for_its_form() -> None:
    turns = judged(MATCHES)
    _, returns = rows(method("algo", "semi_online", format=0.2), replace(turns, parsed=turns.mask))
    assert returns[1] == pytest.approx([1.1, 0.2, 1.5, 1]) and returns[2] == pytest.approx([0.2, 1.1, 0.2])


@pytest.mark.parametrize("threshold", [0.7, 0.71])
def test_groups_whose_returns_deviate_little_are_not_learned_from(threshold: float) -> None:
    """That of R_0 is .70365."""
    advantages, _ = rows(method("algo", "semi_online", threshold=threshold), judged(MATCHES))
    assert any(map(any, advantages)) == (threshold == 0.7)


@pytest.mark.parametrize("matches", [MATCHES[1:2], [[1, 0, 1]] * 3, [[0]] * 3], ids=["one", "equal", "none"])
def test_equal_episodes_and_one_alone_teach_nothing(matches: list[list[int]]) -> None:
    advantages, _ = rows(method("algo", "semi_online", threshold=0), judged(matches))
    assert not any(map(any, advantages))


# ---- seeupo

Z = [1.13893, -0.88583, -0.88583, 0.63274, -0.67492, 1.34984, -0.67492]


def scores(chosen: Any, turns: Turns) -> list[float]:
    found = estimated(chosen, turns).advantages
    assert torch.equal(found, found[:, :1] * turns.mask)
    return list(found[:, 0].tolist())


@pytest.mark.parametrize(("names", "wanted"), [(PATHS, Z), (["P_0"], [0]), (["P_0", "Q_4"], [0, 0])])
def test_scores_of_example_x_and_of_episodes_alone(names: Any, wanted: list[float]) -> None:
    paths = {name: PATHS[name] for name in names}
    assert scores(method("algo", "seeupo"), example_x(paths=paths)) == pytest.approx(wanted, abs=1e-5)


def test_the_order_of_turns() -> None:
    rows = dict.fromkeys(range(6), 4)
    assert method("algo", "seeupo", order="forward").in_order(rows, 1) == [0, 1, 2, 3, 4, 5]
    drawn = [method("algo", "seeupo", order="random").in_order(rows, step) for step in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and sorted(drawn[2]) == [0, 1, 2, 3, 4, 5]


def test_changes_are_means_over_a_rows_tokens() -> None:
    old, new = torch.zeros(3, 3), torch.tensor([[0.3, -0.1, 9.0], [9.0, 0.2, 9.0], [9.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 0]])
    assert mean_changes(old, new, mask).tolist() == pytest.approx([0.1, 0.2, 0.0])
