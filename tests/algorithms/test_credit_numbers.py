"""Every credit method on example X: the specifications' numbers."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import GRPO, GRPO_WITHOUT_STD, PATHS, Paths, credit_of, example_x, spread, taking
from test_credit_graft import GRAFT, GRAFT_MEAN
from test_methods_numbers import GIGPO, GIGPO_WITHOUT_STD, assert_turns
from usual import method, of_words

from turngrid.algorithms.group import grpo
from turngrid.algorithms.pools import deviations
from turngrid.algorithms.registry import SLOTS
from turngrid.algorithms.turns import Turns

VALID = [[1, 1], [1, 0, 1], [1, 1], [1, 1, 1], [1, 0], [1, 1], [0, 1]]  # of MT-GRPO's example
Q = [[-0.57735, -0.57735], [1.15470, 1.15470], [-0.57735, -0.57735]]
HGPO = [
    [1.51833, 1.00758],
    [-0.79973, -1.36320, -0.79973],
    [-0.79973, 0.0],
    [0.88086, 0.35562, 0.0],
    [-0.70710, 0.0],
    [1.41421, 0.0],
    [-0.70710, 0.0],
]
HGPO_MEAN = [
    [0.62225, 0.42500],
    [-0.32775, -0.57500, -0.32775],
    [-0.32775, 0.0],
    [0.36100, 0.15000, 0.0],
    [-0.31667, 0.0],
    [0.63333, 0.0],
    [-0.31667, 0.0],
]
MT_OWN = [[1.5, 2.0], [-0.5, -2.0, -0.5], [-0.5, 0], [-0.5, 0, -0.5], [0, -1.73205], [1.73205, 1.73205], [-1.73205, 0]]
MT_FIRST = [
    [1.5, 1.5],
    *([[-0.5] * 3, [-0.5] * 2, [-0.5] * 3]),
    [0, -0.57735],
    [1.73205, 1.15470],
    [-1.73205, -0.57735],
]
SALT = [[0.28296, 0.84887], [0.28296, -0.84887, -0.84887], [-0.84887] * 2, [0.28296, 0.84887, 0.60634], *Q]
AEM = [[1.45274, 1.13140], [-0.68532, -0.53373, -0.77657], [-0.99714, -0.47102], [0.91454, 0.80708, 0.43200], *Q]
EMPG = [
    [1.56940, 1.16872],
    [-0.66625, -0.49069, -0.80220],
    [-0.99325, -0.48656],
    [1.03296, 0.88094, 0.44625],
    [-0.48495, -0.54560],
    [1.15186, 1.09120],
    [-0.48495, -0.54560],
]
AEPO = [
    [0.80400, 1.00838],
    [-0.94325, -1.10222, -0.86377],
    [-0.70481, -1.18170],
    [0.38989, 0.44667, 0.73053],
    [-0.58749] * 2,
    [1.17497] * 2,
    [-0.58749] * 2,
]
# what is chosen -> the base's advantages, and those of each turn
NUMBERS = {
    "gigpo": (GRPO, GIGPO),
    "gigpo std=false": (GRPO_WITHOUT_STD, GIGPO_WITHOUT_STD),
    "salt": (GRPO, SALT),
    "aem": (GRPO, AEM),
    "empg": (GRPO, EMPG),
    "aepo": (GRPO, AEPO),
    "group_scale": (GRPO, [[GRPO[e]] * n for e, n in enumerate((2, 3, 2, 3, 2, 2, 2))]),  # all groups differ: 1
    "hgpo": (GRPO, HGPO),
    "hgpo std=false": (GRPO_WITHOUT_STD, HGPO_MEAN),
    "graft": (GRPO, GRAFT),
    "graft backup=mean": (GRPO, GRAFT_MEAN),
    "mt_grpo outcome=won": (GRPO, MT_OWN),
    "mt_grpo outcome=won scope=first": (GRPO, MT_FIRST),
}


def test_every_credit_method_has_an_example() -> None:
    """Others are in test_tree_credit, test_labels, test_roles and test_contexts_numbers."""
    elsewhere = {"role_norm", "tree", "tree_q", "pair", "attempts", "rlvmr", "infopo", "igpo"}
    assert {words.split()[0] for words in NUMBERS} == set(SLOTS["credit"]) - elsewhere


def valid(turns: Turns) -> Turns:
    table = torch.zeros_like(turns.mask)
    table[turns.mask] = torch.tensor([number for row in VALID for number in row]).bool()
    return replace(turns, valid=table)


@pytest.mark.parametrize("words", NUMBERS)
def test_the_numbers_of_the_specification(words: str) -> None:
    base, wanted = NUMBERS[words]
    made = of_words("credit", words)
    turns = valid(example_x())
    assert_turns(made(turns, spread(base, turns)), turns, wanted)


@pytest.mark.parametrize(("order", "first"), [("salt aem", 0.37664), ("aem salt", 0.56065)])
def test_one_after_the_other(order: str, first: float) -> None:
    turns = example_x()
    matrix = spread(GRPO, turns)
    for name in order.split():
        matrix = method("credit", name)(turns, matrix)
    assert matrix[0, 0].item() == pytest.approx(first, abs=1e-5)


def test_gigpos_released_baseline_weighs_episodes_by_their_turns() -> None:
    """The paper's is over episodes; with weight 0 the episode term alone is left."""
    turns = example_x(dead=True)
    made = (method("credit", "gigpo", weight=0.0, by_turns=by_turns) for by_turns in (False, True))
    paper, released = (one(turns, spread(GRPO, turns))[0, 0].item() for one in made)
    scores = torch.tensor([1.0] * 2 + [0.0] * 5 + [0.75] * 3).double()  # of P, once a turn
    assert [paper, released] == pytest.approx([1.09141, 1.25766], abs=1e-5)
    assert released == pytest.approx(((1 - scores.mean()) / (scores.std() + 1e-6)).item())


@pytest.mark.parametrize(("settings", "factor"), [({}, 1.5), ({"most": 1.2}, 1.2)])
def test_a_group_of_equal_scores_is_made_up_for(settings: Any, factor: float) -> None:
    """Three groups, of which two have unequal scores."""
    equal = {name.replace("Q", "R"): (*row[:1], [0, 0], *row[2:]) for name, row in PATHS.items() if name[0] == "Q"}
    turns = example_x(paths=PATHS | equal)
    found = method("credit", "group_scale", **settings)(turns, spread(GRPO + [0.0] * 3, turns))
    wanted = [factor * number for number in GRPO] + [0.0] * 3
    assert found[:, 0].tolist() == pytest.approx(wanted, abs=1e-5)


def test_without_a_group_of_unequal_scores_nothing_is_learned() -> None:
    """Nor from one alone in its group, whatever credit came before."""
    alone = example_x(paths={"P_0": PATHS["P_0"], "Q_5": PATHS["Q_5"]})
    assert not method("credit", "group_scale")(alone, torch.ones(alone.mask.shape).double()).any()


def test_pools_of_aem() -> None:
    """Mean weight 1 over each pool's turns."""
    turns = example_x()
    for scope, pools in (
        ("batch", [range(7)]),
        ("group", [range(4), range(4, 7)]),
        ("episode", [[e] for e in range(7)]),
    ):
        weights = method("credit", "aem", scope=scope)(turns, torch.ones(turns.mask.shape).double())
        for pool in pools:
            assert weights[list(pool)][turns.mask[list(pool)]].mean().item() == pytest.approx(1.0)


def test_empg_may_be_centred_over_the_batch() -> None:
    turns = example_x()
    found = method("credit", "empg", centred=True)(turns, spread(GRPO, turns))
    flat = torch.tensor([number for row in EMPG for number in row]).double()
    assert found[turns.mask].tolist() == pytest.approx((flat - flat.mean()).tolist(), abs=2e-5)


def test_hgpo_may_count_the_episodes_advantage_too() -> None:
    """As the item k = 0: 1 part to 2 of the turn's own state."""
    turns = example_x()
    found = method("credit", "hgpo", base=True)(turns, spread(GRPO, turns))
    assert found[0, 0].item() == pytest.approx((1.09141 + 2 * 1.51833) / 3, abs=2e-5)
    assert found[3, 2].item() == pytest.approx(0.60634, abs=1e-5)  # alone at its state


# ---- float32 rounding is no difference


def test_hgpo_leaves_out_histories_whose_returns_differ_by_rounding() -> None:
    """The two with .3 share their second state too. Equal returns there have no weight beside
    -.70711 of the first state."""
    paths: Paths = {
        f"P_{n}": (path, rewards, [0.0] * 3, [0.0] * 3, 1)
        for n, (path, rewards) in enumerate(
            [("R a S a T", [0, 0.1 + 0.2]), ("R a S a T b U", [0, 0.1, 0.2]), ("Q a S a T", [0, 1.0])]
        )
    }
    found = credit_of(method("credit", "hgpo", gamma=1.0, history=1), example_x(paths=paths))
    assert found[0][1] == pytest.approx(-0.70711, abs=1e-4) and found[1][1] == pytest.approx(-0.70711, abs=1e-4)
    assert found[2][1] == pytest.approx(1.41421, abs=1e-4)


@pytest.mark.parametrize("rewards", [[[0.1, 0.2], [0.3]], [[3.3, 6.7], [10.0]], [[1e4, -1e4, 0.1], [0.1]]])
def test_all_methods_have_one_tolerance(rewards: list[list[float]]) -> None:
    """Of the numbers that were summed up: 1e4 - 1e4 + .1 is as exact as 1e4 is."""
    turns = example_x(paths={f"P_{n}": taking("STUV"[: len(own) + 1], own, 1) for n, own in enumerate(rewards)})
    turns = replace(turns, tree=torch.zeros(2).long(), node=turns.state)
    assert not any(credit_of(method("credit", "tree"), turns)[0]) and not any(
        credit_of(method("credit", "gigpo", by_turns=True, weight=0.0), turns)[1]
    )
    assert deviations(turns.score, turns.group, size=turns.score_size) == 0
    assert not method("filter", "zero_std")(turns, 1).any()
    score = torch.nn.utils.rnn.pad_sequence([torch.tensor(own) for own in rewards], batch_first=True)
    assert not grpo(score, torch.ones_like(score), ["P", "P"])[0].any()


def test_equal_entropies_are_not_stretched_to_the_whole_scale() -> None:
    turns = example_x()
    turns = replace(turns, entropy=turns.entropy * 0 + 0.3)
    turns.entropy[0, 0] += 1e-9  # type: ignore[index]
    for credit in (method("credit", "aem"), method("credit", "aepo")):
        assert torch.equal(credit(turns, spread(GRPO, turns))[turns.mask], spread(GRPO, turns)[turns.mask])


# ---- where the policy decides when to stop


def stopping(credit: Any, samples: int = 8) -> float:
    """The expected gradient by the continue-logit where going on earns .8 in a second turn and the
    policy goes on with p = .5, over all groups of so many samples; the true one is p (1 - p) x .8 =
    .2."""
    total = 0.0
    for count in range(samples + 1):
        longer, shorter = taking("STU", [0.0, 0.8]), taking("SV", [0.0])
        turns = example_x(paths={f"P_{n}": longer if n < count else shorter for n in range(samples)})
        scores = turns.score.float().unsqueeze(1)
        base, _ = grpo(scores, torch.ones_like(scores), ["P"] * samples, norm_adv_by_std_in_grpo=False)
        found = credit(turns, base.double().expand(turns.mask.shape).clone())
        gradient = ((turns.last > 0).double() - 0.5) * found[:, 0]
        total += math.comb(samples, count) / 2**samples * gradient.mean().item()
    return total


@pytest.mark.parametrize(("outcome", "wanted"), [("reward", 0.2 * 7 / 8), ("won", 0.0)])
def test_mt_grpo_by_turn_numbers_does_not_see_what_only_longer_episodes_earn(outcome: str, wanted: float) -> None:
    """The turn's own term is 0 in both: all that have a second turn earn the same. 7 / 8 is the
    baseline's, which has the sample itself."""
    assert stopping(method("credit", "mt_grpo", turn="reward", outcome=outcome)) == pytest.approx(wanted)
