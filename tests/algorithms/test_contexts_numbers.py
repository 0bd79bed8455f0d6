"""Methods with contexts: the specifications' numbers, whatever rows lie beside them."""

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
import torch
from example_x import GRPO, PATHS, example_x, random_paths, spread, taking
from torch import Tensor
from usual import method, of_words

from turngrid.algorithms.slots import LossView
from turngrid.algorithms.turn_table import on_action_tokens
from turngrid.algorithms.turns import Turns

P = {name: path for name, path in PATHS.items() if name[0] == "P"}
# episode -> mean log-prob of the right answer at each turn, and its score
ANSWERS = {"P_0": ([-2.5, -1.0, -0.2], 1.0), "P_1": ([-2.5, -2.7, -1.5], 0.5), "P_2": ([-2.5, -2.2], 0.0)}
BASE = [1.0, 0.0, -1.0]


def by_turns(turns: Turns, numbers: dict[str, list[float]]) -> Tensor:
    """(E, K), NaN where an episode or a turn has none."""
    table = torch.full(turns.mask.shape, torch.nan, dtype=torch.float64)
    for row, name in enumerate(turns.episodes):
        table[row, : len(numbers.get(name, []))] = torch.tensor(numbers.get(name, []), dtype=torch.float64)
    return table


# ---- infopo

GAINS = {"P_0": [0.3], "P_1": [0.1, -0.2], "P_2": [0.05], "P_3": [0.4, 0.15]}
ALL_LOST = [[0.19939, 0], [-0.03988, -0.39879, 0], [-0.09970, 0], [0.31903, 0.01994, 0]]
WIDE = [[1.19626, 1.09141], [-0.86984, -1.05858, -0.84887], [-0.90130, -0.84887], [0.77411, 0.61682, 0.60634]]


def gained(**changes: Any) -> Turns:
    """Group P, whose answers but the first are so much likelier than after a masked observation."""
    turns = example_x(paths=P)
    masked = by_turns(turns, {name: [torch.nan, *(-1 - gain for gain in own)] for name, own in GAINS.items()})
    spread_masked, old = turns.spread(masked), torch.full(turns.place.shape, -1.0)
    return replace(turns, log_prob=old, scored=spread_masked.where(turns.place >= 0, torch.nan), **changes)


def of_turns(found: Tensor, turns: Turns) -> list[float]:
    return found[turns.mask].tolist()


def test_infopo() -> None:
    turns = gained()
    base = spread(GRPO[:4], turns)
    wide = method("credit", "infopo", temperature=0.5)
    assert of_turns(wide(turns, base), turns) == pytest.approx([*chain(*WIDE)], abs=1.01e-5)
    assert wide.logged["gate"] == pytest.approx(0.26293, abs=1e-5) and wide.logged["gains"] == 6
    narrow = method("credit", "infopo")
    assert of_turns(narrow(turns, base), turns) == pytest.approx(of_turns(base, turns), abs=5e-5)
    assert narrow.logged["gate"] == pytest.approx(3.34e-5, abs=1e-6)
    lost = gained(reward=turns.reward * 0)
    assert of_turns(narrow(lost, base * 0), turns) == pytest.approx([*chain(*ALL_LOST)], abs=1.01e-5)


def test_infopo_credits_nothing_for_equal_gains_or_one_alone() -> None:
    """Nor if no turn has a context."""
    turns = gained()
    infopo, lost = method("credit", "infopo"), replace(turns, reward=turns.reward * 0)
    base = torch.ones(turns.mask.shape).double()
    equal = replace(lost, scored=torch.full(turns.place.shape, -1.1))
    alone = replace(lost, scored=lost.scored.where(turns.place == 1, torch.nan))  # the second turn of the first
    none = replace(lost, scored=torch.full(turns.place.shape, torch.nan))
    for other in (equal, alone, none):
        assert torch.equal(infopo(other, base)[turns.mask], base[turns.mask])
    assert infopo.logged["gains"] == 0


def test_infopo_credits_the_turns_before_one_without_a_context() -> None:
    """Third answers have none, so each episode's first turn has a gain, and no other."""
    turns, infopo = gained(), method("credit", "infopo")
    scored = turns.scored.where(turns.place % turns.mask.shape[1] != 2, torch.nan)
    found = infopo(replace(turns, scored=scored, reward=turns.reward * 0), torch.zeros(turns.mask.shape).double())
    assert infopo.logged["gains"] == len(GAINS)
    assert found[:, 0].all() and not found[:, 1:].any()


# ---- igpo


def answered() -> Turns:
    rewards = {name: [0.0] * (len(known) - 1) + [score] for name, (known, score) in ANSWERS.items()}
    turns = example_x(paths={name: taking("S" * (len(own) + 1), own, outcome=1) for name, own in rewards.items()})
    known = turns.spread(by_turns(turns, {name: known for name, (known, _) in ANSWERS.items()}))
    return replace(turns, scored=known.where(turns.place >= 0, torch.nan))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ("", [2.95810, 2.41104, 1, -1.15952, -0.13273, 0, -1.79858, -1]),
        ("gamma=0.95", [2.79005, 2.36104, 1, -1.15288, -0.13273, 0, -1.74858, -1]),
        ("pool=joint", [2.41334, 2.45676, 2.02268, -0.75607, 0.15715, 0.57625, -1.65727, -0.87017]),
        ("kind=log", [2.25846, 1.11706, 1, -0.64386, 0.70240, 0, -1.61459, -1]),
    ],
)
def test_igpo(settings: str, wanted: list[float]) -> None:
    turns = answered()
    found = of_words("credit", f"igpo {settings}")(turns, spread(BASE, turns))
    assert of_turns(found, turns) == pytest.approx(wanted, abs=1.01e-5)


@pytest.mark.parametrize("pool", ["separate", "joint"])
def test_igpo_of_equal_gains_is_the_episodes_credit(pool: str) -> None:
    """And so is that of one alone in its group; gains that equal all scores too leave none."""
    igpo = method("credit", "igpo", pool=pool)
    turns = answered()
    still = replace(turns, scored=torch.full(turns.place.shape, -0.5), reward=turns.reward * 0)
    base = spread(BASE, turns)
    found = igpo(still, base)
    assert of_turns(found, turns) == pytest.approx(of_turns(base if pool == "separate" else base * 0, turns))
    alone = example_x(paths={"P_2": taking("SSS", [0.0, 0.0], outcome=1)})
    alone = replace(alone, scored=torch.tensor([[-2.0, -2, 0, 0, -1, -1, -1, 0, 0]]))
    if pool == "separate":  # else its gain and its score are two
        assert of_turns(igpo(alone, spread([0.0], alone)), alone) == [0, 0]


# ---- self_distill

STUDENT, TEACHER, OLD = [-0.3, -1.2, -0.5], [-0.1, -2.0, -0.5], [-0.35, -1.2, -0.6]


def test_self_distill() -> None:
    """Three tokens with a hint, among others."""
    paths = {"P_0": taking("SSS", [0.0, 0.0]), "P_1": taking("SS", [0.0], outcome=1)}
    term = method("terms", "self_distill", weight=1.0)
    for shape in ({}, {"dead": True, "padding": 2}):
        turns = example_x(paths=paths, **shape)
        teacher, old, student = (torch.full(turns.place.shape, torch.nan) for _ in range(3))
        places = (turns.place[0] == 1).nonzero().squeeze(1)  # of the second turn, three tokens
        for column, numbers in ((teacher, TEACHER), (old, OLD), (student, STUDENT)):
            column[0, places] = torch.tensor(numbers)
        teacher[0, 0], student[1:], old[1:], student[0, 0], old[0, 0] = -9.0, -1.0, -1.0, -1.0, -1.0
        keep = turns.mask.clone()
        keep[0, 0] = False  # a muted turn
        numbers, coefficients = term.prepare(replace(turns, scored=teacher, log_prob=old), keep, None, 1, 10)
        assert numbers["weight"].sum() == 3 and all(tensor.isfinite().all() for tensor in numbers.values())
        student.requires_grad_()
        loss, metrics = term.loss(LossView(student, None, numbers, 1 / 3), coefficients)
        assert loss.item() == pytest.approx(0.09061, abs=1e-5)
        assert metrics["kl"].item() == pytest.approx(0.2, abs=1e-6)
        loss.backward()
        assert student.grad[0, places].tolist() == pytest.approx([-0.07008, 0.26667, 0], abs=1e-5)
        assert student.grad.nan_to_num(9).sum() == pytest.approx(-0.07008 + 0.26667, abs=1e-5)


# ---- where results lie


def test_results_lie_on_turns_or_tokens() -> None:
    mask = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 0, 1]])
    numbers = torch.tensor([-1.0, -3.0])
    found = on_action_tokens([(0, 1, numbers), (1, 0, numbers)], mask, "turns")
    assert found.nan_to_num(9).tolist() == [[9, 9, 9, -2, 9], [9, -2, -2, 9, 9]]
    found = on_action_tokens([(0, 0, torch.tensor([-1.0, -2, -3])), (1, 1, numbers[:1])], mask, "tokens")
    assert found.nan_to_num(9).tolist() == [[-1, -2, 9, -3, 9], [9, 9, 9, 9, -1]]
    with pytest.raises(ValueError, match="scored 2 tokens, and its row has 1 from its turn on"):
        on_action_tokens([(0, 1, numbers)], mask, "tokens")


def test_a_method_sees_its_own_contexts_alone() -> None:
    turns = example_x(paths=random_paths(0))
    one, other = torch.zeros(turns.place.shape), torch.ones(turns.place.shape)
    turns = replace(turns, scored=None, contexts={"credit/one": one, "terms/one": other})
    assert turns.seen_by("credit", "one").scored is one and turns.seen_by("terms", "one").scored is other
    assert turns.seen_by("credit", "two").scored is None
