"""Tree-GRPO's numbers: one prompt, trees whose leaves scored (1 0 1) and (0 0 0)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from usual import as_shipped

from turngrid.algorithms.credit.groups import Tree, leaves
from turngrid.algorithms.turn_table import turn_table
from turngrid.algorithms.turns import Turns

SCORES = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
TREES = [0, 0, 0, 3, 3, 3]
INTER = [1.29099, -0.64550, 1.29099, -0.64550, -0.64550, -0.64550]
TREE_GRPO = [1.86834, -1.80019, 1.86834, -0.64550, -0.64550, -0.64550]


def leaves_of(scores: list[float], trees: list[int], dead: bool = False) -> Turns:
    """Two turns each; those of a tree share their first. ``dead``: with an episode that has no
    action token."""
    tokens = torch.tensor([[1, 1, 0, 1]] * len(scores) + [[0, 0, 0, 0]] * dead)
    reward = torch.zeros(tokens.shape)
    reward[: len(scores), 3] = torch.tensor(scores)
    places = [*enumerate(trees), *([(9, 0)] if dead else [])]
    records = {
        name: [torch.zeros(2).long() for _ in places] for name in ("state", "after", "action", "valid", "parsed")
    }
    records["node"] = [torch.tensor([100 * tree, 100 * sample + 1]) for sample, tree in places]
    records |= {"tree": [torch.tensor([tree]) for _, tree in places], "outcome": [torch.tensor([1])] * len(places)}
    members = {f"P_{sample}": [row] for row, (sample, _) in enumerate(places)}
    return turn_table({"loss_mask": tokens, "reward": reward}, records, members, ["P"] * len(places))


def inter(turns: Turns) -> Tensor:
    """What GRPO gives."""
    scores = turns.score
    return ((scores - scores.mean()) / (scores.std() + 1e-6)).unsqueeze(1).expand(turns.mask.shape)


@pytest.mark.parametrize("dead", [False, True])
def test_leaves_are_compared_with_all_and_with_those_of_their_tree(dead: bool) -> None:
    turns = leaves_of(SCORES, TREES, dead)
    assert inter(turns)[:, 0].tolist() == pytest.approx(INTER, abs=1e-5)
    found = as_shipped(Tree)(turns, inter(turns))
    assert found[:, 0].tolist() == pytest.approx(TREE_GRPO, abs=1e-5) == found[:, 1].tolist()


@pytest.mark.parametrize(("lone_leaf", "wanted"), [("zero", 0.0), ("raw", 1.0)])
def test_a_tree_with_one_leaf(lone_leaf: str, wanted: float) -> None:
    """The paper's form adds nothing, the released code its raw score."""
    turns = leaves_of([1.0, 0.0, 0.0], [0, 1, 1])
    assert as_shipped(Tree, lone_leaf=lone_leaf)(turns, torch.zeros(3, 2))[:, 0].tolist() == [wanted, 0.0, 0.0]


def test_a_shared_turn_may_be_learned_from_once() -> None:
    turns = leaves_of(SCORES, TREES)
    assert leaves(turns).tolist() == [[3.0, 1.0]] * 6
    found = as_shipped(Tree, shared="once")(turns, inter(turns))
    assert found[:, 0].tolist() == pytest.approx([number / 3 for number in TREE_GRPO], abs=1e-5)
    assert found[:, 1].tolist() == pytest.approx(TREE_GRPO, abs=1e-5)


def test_without_trees_nothing_changes() -> None:
    turns = leaves_of(SCORES, TREES)
    plain = Turns(**{**vars(turns), "tree": None, "node": None})
    assert torch.equal(as_shipped(Tree, shared="once")(plain, inter(plain)), inter(plain))
