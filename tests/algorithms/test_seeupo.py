"""``algo=seeupo``: the specification's numbers."""

from typing import Any

import pytest
import torch
from example_x import PATHS, example_x
from usual import method

from turngrid.algorithms.estimators.seeupo import mean_changes
from turngrid.algorithms.slots import Tokens
from turngrid.algorithms.turns import Turns

Z = [1.13893, -0.88583, -0.88583, 0.63274, -0.67492, 1.34984, -0.67492]


def scores(chosen: Any, turns: Turns) -> list[float]:
    found = chosen(turns, Tokens(turns.place >= 0, torch.zeros(turns.place.shape))).advantages
    assert torch.equal(found, found[:, :1] * turns.mask)
    return list(found[:, 0].tolist())


def test_scores_of_example_x() -> None:
    assert scores(method("algo", "seeupo"), example_x()) == pytest.approx(Z, abs=1e-5)


@pytest.mark.parametrize("names", [["P_0"], ["P_0", "Q_4"]], ids=["one", "one a group"])
def test_episodes_alone_teach_nothing(names: list[str]) -> None:
    assert not any(scores(method("algo", "seeupo"), example_x(paths={name: PATHS[name] for name in names})))


def test_the_order_of_turns() -> None:
    rows = dict.fromkeys(range(6), 4)
    assert method("algo", "seeupo", order="forward").in_order(rows, 1) == [0, 1, 2, 3, 4, 5]
    drawn = [method("algo", "seeupo", order="random").in_order(rows, step) for step in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and sorted(drawn[2]) == [0, 1, 2, 3, 4, 5]


def test_changes_are_means_over_a_rows_tokens() -> None:
    old, new = torch.zeros(3, 3), torch.tensor([[0.3, -0.1, 9.0], [9.0, 0.2, 9.0], [9.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 0]])
    assert mean_changes(old, new, mask).tolist() == pytest.approx([0.1, 0.2, 0.0])
