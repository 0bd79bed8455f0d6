"""Tree-GRPO's numbers: one prompt, trees whose leaves scored (1 0 1) and (0 0 0); those of
``tree_q``, ``pair`` and ``attempts``."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import PATHS, by_turn, example_x
from torch import Tensor
from usual import method

from turngrid.algorithms.credit.tree import leaves
from turngrid.algorithms.turn_table import turn_table
from turngrid.algorithms.turns import Turns
from turngrid.config.compose import Composer
from turngrid.config.method_settings import methods_of

SCORES = [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
TREES = [0, 0, 0, 3, 3, 3]
TREE_GRPO = [1.86834, -1.80019, 1.86834, -0.64550, -0.64550, -0.64550]


def leaves_of(scores: list[float], trees: list[int], dead: bool = False) -> Turns:
    """Two turns each; those of a tree share their first."""
    paths = [f"{'abcd'[tree]}{sample}" for sample, tree in enumerate(trees)]
    turns = of_paths(dict(zip(paths, scores, strict=True)), dead=dead)
    return replace(turns, tree=torch.tensor(trees))


def inter(turns: Turns) -> Tensor:
    """What GRPO gives."""
    scores = turns.score
    return ((scores - scores.mean()) / (scores.std() + 1e-6)).unsqueeze(1).expand(turns.mask.shape)


@pytest.mark.parametrize("dead", [False, True])
def test_leaves_are_compared_with_all_and_with_those_of_their_tree(dead: bool) -> None:
    turns = leaves_of(SCORES, TREES, dead)
    found = method("credit", "tree")(turns, inter(turns))
    assert found[:, 0].tolist() == pytest.approx(TREE_GRPO, abs=1e-5) == found[:, 1].tolist()


def test_a_tree_with_one_leaf_adds_nothing() -> None:
    """As in the paper; the released code adds its raw score."""
    turns = leaves_of([1.0, 0.0, 0.0], [0, 1, 1])
    assert not method("credit", "tree")(turns, torch.zeros(3, 2)).any()


def test_a_shared_turn_may_be_learned_from_once() -> None:
    turns = leaves_of(SCORES, TREES)
    assert leaves(turns).tolist() == [[3.0, 1.0]] * 6
    found = method("credit", "tree", shared="once")(turns, inter(turns))
    assert found[:, 0].tolist() == pytest.approx([number / 3 for number in TREE_GRPO], abs=1e-5)
    assert found[:, 1].tolist() == pytest.approx(TREE_GRPO, abs=1e-5)


# path of nodes -> score: root -> a (leaves 1 0), root -> b -> c (0), d (0 1)
BELOW = {"a1": 1.0, "a2": 0.0, "bc3": 0.0, "bd4": 0.0, "bd5": 1.0}
A, B, C, D, LEAF = 0.70710, -0.70710, -0.70710, 0.70710, 0.70711
TREE_Q = [[A, LEAF], [A, -LEAF], [B, C, 0], [B, D, -LEAF], [B, D, LEAF]]


def of_paths(below: dict[str, float], groups: str = "P", dead: bool = False) -> Turns:
    """One token a turn. Each prompt has these paths, as one tree; ``dead``: and an episode without
    an action token."""
    names = [(group, path) for group in groups for path in below] + [(groups[0], "a")] * dead
    tokens = torch.tensor([[int(t % 2 == 0 and t < 2 * len(path)) for t in range(6)] for _, path in names])
    tokens[len(groups) * len(below) :] = 0
    reward = torch.zeros(tokens.shape)
    for row, (_, path) in enumerate(names):
        reward[row, 2 * len(path) - 2] = below.get(path, 1.0)
    zeros = [torch.zeros(len(path)).long() for _, path in names]
    records = dict.fromkeys(("state", "after", "action", "valid", "parsed"), zeros)
    records["node"] = [torch.tensor([ord(node) for node in path]) for _, path in names]
    records |= {"tree": [torch.tensor([0])] * len(names), "outcome": [torch.tensor([1])] * len(names)}
    members = {f"{group}_{row}": [row] for row, (group, _) in enumerate(names)}
    return turn_table({"loss_mask": tokens, "reward": reward}, records, members, [group for group, _ in names])


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("groups", ["P", "PQ"])
def test_a_turn_is_compared_with_its_siblings(composed: Composer, dead: bool, groups: str) -> None:
    """As composed; ``bc3`` has no sibling."""
    words = ["algo=tree_grpo", "credit=[tree_q]", "credit.tree_q.shared=each"]
    turns = of_paths(BELOW, groups, dead)
    found = methods_of(composed(words)).of("credit", 1)["tree_q"](turns, inter(turns))
    for row, wanted in zip(by_turn(found, turns), TREE_Q * len(groups), strict=True):
        assert row == pytest.approx(wanted, abs=1e-5)


def test_a_node_is_learned_from_once_as_shipped() -> None:
    turns = of_paths(BELOW)
    found = by_turn(method("credit", "tree_q")(turns, inter(turns)), turns)
    assert [row[0] for row in found] == pytest.approx([A / 2] * 2 + [B / 3] * 3, abs=1e-5)
    assert found[3][1:] == pytest.approx([D / 2, -LEAF], abs=1e-5)


def test_a_turn_without_siblings_may_have_its_episodes_advantage() -> None:
    turns = of_paths(BELOW)
    found = by_turn(method("credit", "tree_q", alone="episode", shared="each")(turns, inter(turns)), turns)
    assert found[2] == pytest.approx([B, C, 2 * inter(turns)[2, 0].item()], abs=1e-5)  # one tree: GRPO twice
    assert found[0] == pytest.approx(TREE_Q[0], abs=1e-5)


@pytest.mark.parametrize("below", [dict.fromkeys(BELOW, 0.3), {"abc": 1.0}], ids=["equal", "one"])
def test_equal_scores_and_one_episode_teach_nothing(below: dict[str, float]) -> None:
    turns = of_paths(below)
    assert not method("credit", "tree_q")(turns, torch.ones(turns.mask.shape).double()).any()


def test_values_that_differ_by_rounding_are_equal() -> None:
    turns = of_paths({"a1": 0.3, "b2": 0.0})
    turns.reward[1, :2] = torch.tensor([0.1, 0.2]).double()  # as float32 has them
    turns.reward[0, 1] = torch.tensor(0.3).double()
    assert not method("credit", "tree_q")(turns, torch.zeros(turns.mask.shape).double()).any()


# ---- pairs


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("eta", [1.0, 0.5])
def test_a_pair_is_learned_from_at_the_turn_where_it_parts(composed: Composer, eta: float, dead: bool) -> None:
    """2 eta (R_1 - R_2), on the second turn of two episodes that share their first; those of the
    other prompt part at once, and score the same."""
    turns = of_paths({"ab1": 1.0, "ac2": 0.0}, dead=dead)
    method = methods_of(composed(["algo=refuel", f"credit.pair.eta={eta}"])).of("credit", 1)["pair"]
    found = by_turn(method(turns, torch.ones(turns.mask.shape).double()), turns)
    assert found == [pytest.approx([0, 2 * eta, 0]), pytest.approx([0, -2 * eta, 0])]


def test_pairs_part_at_any_turn_and_one_alone_teaches_nothing() -> None:
    of = method("credit", "pair")
    for below, wanted in (
        ({"a": 1.0, "bc": 0.0}, [[2.0], [-2.0, 0.0]]),
        ({"abc": 0.25, "abd": 1.0}, [[0, 0, -1.5], [0, 0, 1.5]]),
        ({"abc": 0.3, "ad": 0.3}, [[0.0] * 3, [0.0] * 2]),
        ({"abc": 1.0}, [[0.0] * 3]),
    ):
        turns = of_paths(below)
        assert by_turn(of(turns, torch.ones(turns.mask.shape).double()), turns) == wanted
    assert method("credit", "pair")(example_x(), torch.ones(example_x().mask.shape).double()).all()


# ---- attempts

# of X's turns the play, and the advantages by hand: play 0 of P scored 0 0 0 .25, play 1 1 0 0 .5;
# play 0 of Q 0 1 0, and one episode alone played again
ATTEMPTS = [[0, 1], [0, 1, 1], [0, 1], [0, 0, 1], [0, 0], [0, 1], [0, 0]]
PLAYS = [[-0.5, 1.30558], [-0.5, -0.78335, -0.78335], [-0.5, -0.78335], [1.5, 1.5, 0.26112]]
PLAYS += [[-0.57735] * 2, [1.15470, 0], [-0.57735] * 2]


def of_attempts(**shape: Any) -> Turns:
    turns = example_x(paths=PATHS | {"Q_5": ("U0 b U2 a U4", [1, 0], *PATHS["Q_5"][2:])}, **shape)
    attempt = torch.zeros(turns.mask.shape).long()
    attempt[turns.mask] = torch.tensor([number for row in ATTEMPTS for number in row])
    return replace(turns, attempt=attempt)


@pytest.mark.parametrize("shape", [{}, {"windows": True}, {"dead": True, "padding": 3}])
def test_a_play_is_compared_with_those_of_its_number(composed: Composer, shape: dict[str, Any]) -> None:
    turns = of_attempts(**shape)
    method = methods_of(composed(["algo=score"])).of("credit", 1)["attempts"]
    found = method(turns, torch.ones(turns.mask.shape).double())
    for row, wanted in zip(by_turn(found, turns), PLAYS, strict=True):
        assert row == pytest.approx(wanted, abs=2e-5)


def test_equal_attempts_and_episodes_of_one_change_nothing() -> None:
    turns = of_attempts()
    equal = replace(turns, reward=turns.reward * 0)
    assert not method("credit", "attempts")(equal, torch.ones(turns.mask.shape).double()).any()
    assert method("credit", "attempts")(example_x(), torch.ones(turns.mask.shape).double()).all()
