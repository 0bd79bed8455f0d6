"""``algo=semi_online``: the specification's numbers."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import Paths, example_x
from usual import method

from turngrid.algorithms.slots import Tokens
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
    paths: Paths = {
        f"{group}_{n}": ("S0" + " a S0" * len(own), [match / PLAN for match in own], [0.0] * 4, [0.0] * 4, 1)
        for group in groups
        for n, own in enumerate(matches)
    }
    turns = example_x(paths=paths)
    return replace(turns, named={"plan_share": turns.reward}, parsed=turns.reward > 0)


def rows(chosen: Any, turns: Turns) -> tuple[list[list[float]], list[list[float]]]:
    found = chosen(turns, Tokens(turns.place >= 0, torch.zeros(turns.place.shape)))
    return tuple(  # type: ignore[return-value]
        [row[mask].tolist() for row, mask in zip(numbers, turns.mask, strict=True)]
        for numbers in (found.advantages, found.returns)
    )


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
