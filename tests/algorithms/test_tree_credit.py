"""Tree-GRPO's numbers: one prompt, trees whose leaves scored (1 0 1) and (0 0 0); those of
``tree_q``, ``pair`` and ``attempts``."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from example_x import PATHS, Paths, episode_rows, example_x, table, taking
from torch import Tensor
from usual import as_shipped

from turngrid.algorithms.credit.groups import Attempts, Pair, Tree, TreeQ, leaves
from turngrid.algorithms.turns import Turns

# leaves of two trees, whose first turn is that of all leaves of the tree
LEAVES, TREES = {"ac": 1.0, "ad": 0.0, "ae": 1.0, "bf": 0.0, "bg": 0.0, "bh": 0.0}, [0, 0, 0, 3, 3, 3]
INTER = [1.29099, -0.64550, 1.29099, -0.64550, -0.64550, -0.64550]
TREE_GRPO = [1.86834, -1.80019, 1.86834, -0.64550, -0.64550, -0.64550]


def of_paths(below: dict[str, float], trees: Sequence[int] = (), groups: str = "P", dead: bool = False) -> Turns:
    """Each prompt has these paths of nodes, as one tree or several; ``dead``: and an episode that
    has no action token."""
    paths: Paths = {
        f"{group}_{path}": taking(f"{path}-", [0.0] * (len(path) - 1) + [score], outcome=1)
        for group in groups
        for path, score in below.items()
    }
    rows = [row for name in paths for row in episode_rows(name, False, paths)]
    for row, tree in zip(rows, [*(trees or [0] * len(below))] * len(groups), strict=True):
        row |= {"node": row["state"], "tree": [tree]}
    rows += [{**rows[0], "episode": "dead", "mask": [0], "reward": [5.0]}] * dead
    return table(rows)


def inter(turns: Turns) -> Tensor:
    """What GRPO gives."""
    scores = turns.score
    return ((scores - scores.mean()) / (scores.std() + 1e-6)).unsqueeze(1).expand(turns.mask.shape)


@pytest.mark.parametrize("dead", [False, True])
def test_leaves_are_compared_with_all_and_with_those_of_their_tree(dead: bool) -> None:
    turns = of_paths(LEAVES, TREES, dead=dead)
    assert inter(turns)[:, 0].tolist() == pytest.approx(INTER, abs=1e-5)
    found = as_shipped(Tree)(turns, inter(turns))
    assert found[:, 0].tolist() == pytest.approx(TREE_GRPO, abs=1e-5) == found[:, 1].tolist()


@pytest.mark.parametrize(("lone_leaf", "wanted"), [("zero", 0.0), ("raw", 1.0)])
def test_a_tree_with_one_leaf(lone_leaf: str, wanted: float) -> None:
    """The paper's form adds nothing, the released code its raw score."""
    turns = of_paths({"ab": 1.0, "cd": 0.0, "ce": 0.0}, [0, 1, 1])
    assert as_shipped(Tree, lone_leaf=lone_leaf)(turns, torch.zeros(3, 2))[:, 0].tolist() == [wanted, 0.0, 0.0]


def test_a_shared_turn_may_be_learned_from_once() -> None:
    turns = of_paths(LEAVES, TREES)
    assert leaves(turns).tolist() == [[3.0, 1.0]] * 6
    found = as_shipped(Tree, shared="once")(turns, inter(turns))
    assert found[:, 0].tolist() == pytest.approx([number / 3 for number in TREE_GRPO], abs=1e-5)
    assert found[:, 1].tolist() == pytest.approx(TREE_GRPO, abs=1e-5)


# path of nodes -> score: root -> a (leaves 1 0), root -> b -> c (0), d (0 1)
BELOW = {"a1": 1.0, "a2": 0.0, "bc3": 0.0, "bd4": 0.0, "bd5": 1.0}
A, B, C, D, LEAF = 0.70710, -0.70710, -0.70710, 0.70710, 0.70711
TREE_Q = [[A, LEAF], [A, -LEAF], [B, C, 0], [B, D, -LEAF], [B, D, LEAF]]


def rows(found: Tensor, turns: Turns) -> list[list[float]]:
    return [row[mask].tolist() for row, mask in zip(found, turns.mask, strict=True)]


@pytest.mark.parametrize("groups", ["P", "PQ"])
def test_a_turn_is_compared_with_its_siblings(groups: str) -> None:
    """``bc3`` has no sibling."""
    turns = of_paths(BELOW, groups=groups)
    found = as_shipped(TreeQ, shared="each")(turns, inter(turns))
    for row, wanted in zip(rows(found, turns), TREE_Q * len(groups), strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)


def test_a_node_is_learned_from_once_as_shipped() -> None:
    turns = of_paths(BELOW)
    found = rows(as_shipped(TreeQ)(turns, inter(turns)), turns)
    assert [row[0] for row in found] == pytest.approx([A / 2] * 2 + [B / 3] * 3, abs=1e-5)
    assert found[3][1:] == pytest.approx([D / 2, -LEAF], abs=1e-5)


def test_a_turn_without_siblings_may_have_its_episodes_advantage() -> None:
    turns = of_paths(BELOW)
    found = rows(as_shipped(TreeQ, alone="episode", shared="each")(turns, inter(turns)), turns)
    assert found[2] == pytest.approx([B, C, 2 * inter(turns)[2, 0].item()], abs=1e-5)  # one tree: GRPO twice
    assert found[0] == pytest.approx(TREE_Q[0], abs=1e-5)


@pytest.mark.parametrize("below", [dict.fromkeys(BELOW, 0.3), {"abc": 1.0}], ids=["equal", "one"])
def test_equal_scores_and_one_episode_teach_nothing(below: dict[str, float]) -> None:
    turns = of_paths(below)
    assert not as_shipped(TreeQ)(turns, torch.ones(turns.mask.shape).double()).any()


def test_values_that_differ_by_rounding_are_equal() -> None:
    turns = of_paths({"a1": 0.3, "b2": 0.0})
    turns.reward[1, :2] = torch.tensor([0.1, 0.2]).double()  # as float32 has them
    turns.reward[0, 1] = torch.tensor(0.3).double()
    assert not as_shipped(TreeQ)(turns, torch.zeros(turns.mask.shape).double()).any()


# ---- pairs


@pytest.mark.parametrize("eta", [1.0, 0.5])
def test_a_pair_is_learned_from_at_the_turn_where_it_parts(eta: float) -> None:
    """2 eta (R_1 - R_2), on the second turn of two episodes that share their first; those of the
    other prompt part at once, and score the same."""
    turns = of_paths({"ab1": 1.0, "ac2": 0.0})
    found = rows(as_shipped(Pair, eta=eta)(turns, torch.ones(turns.mask.shape).double()), turns)
    assert found == [pytest.approx([0, 2 * eta, 0]), pytest.approx([0, -2 * eta, 0])]


def test_pairs_part_at_any_turn_and_one_alone_teaches_nothing() -> None:
    of = as_shipped(Pair)
    for below, wanted in (
        ({"a": 1.0, "bc": 0.0}, [[2.0], [-2.0, 0.0]]),
        ({"abc": 0.25, "abd": 1.0}, [[0, 0, -1.5], [0, 0, 1.5]]),
        ({"abc": 0.3, "ad": 0.3}, [[0.0] * 3, [0.0] * 2]),
        ({"abc": 1.0}, [[0.0] * 3]),
    ):
        turns = of_paths(below)
        assert rows(of(turns, torch.ones(turns.mask.shape).double()), turns) == wanted
    assert as_shipped(Pair)(example_x(), torch.ones(example_x().mask.shape).double()).all()


# ---- attempts

# of X's turns the play, and the advantages by hand: play 0 of P scored 0 0 0 .25, play 1 1 0 0 .5;
# play 0 of Q 0 1 0, and one episode alone played again
ATTEMPTS = [[0, 1], [0, 1, 1], [0, 1], [0, 0, 1], [0, 0], [0, 1], [0, 0]]
PLAYS = [[-0.5, 1.30558], [-0.5, -0.78335, -0.78335], [-0.5, -0.78335], [1.5, 1.5, 0.26112]]
PLAYS += [[-0.57735] * 2, [1.15470, 0], [-0.57735] * 2]


def of_attempts() -> Turns:
    turns = example_x(paths=PATHS | {"Q_5": ("U0 b U2 a U4", [1, 0], *PATHS["Q_5"][2:])})
    attempt = torch.zeros(turns.mask.shape).long()
    attempt[turns.mask] = torch.tensor([number for row in ATTEMPTS for number in row])
    return replace(turns, attempt=attempt)


def test_a_play_is_compared_with_those_of_its_number() -> None:
    turns = of_attempts()
    found = as_shipped(Attempts)(turns, torch.ones(turns.mask.shape).double())
    for row, wanted in zip(rows(found, turns), PLAYS, strict=True):
        assert row == pytest.approx(wanted, abs=2e-5)


def test_equal_attempts_and_episodes_of_one_change_nothing() -> None:
    turns = of_attempts()
    equal = replace(turns, reward=turns.reward * 0)
    assert not as_shipped(Attempts)(equal, torch.ones(turns.mask.shape).double()).any()
    assert as_shipped(Attempts)(example_x(), torch.ones(turns.mask.shape).double()).all()
