"""Methods that tell kinds of answer apart, as a composed config makes them: the specifications'
numbers, and numbers by hand."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from example_x import GRPO, SPANS, example_x, spread, table
from usual import method

from turngrid.algorithms.credit.rlvmr import Rlvmr as RlvmrCredit
from turngrid.algorithms.credit.rlvmr import rule_rewards
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import OUTCOMES, Turns
from turngrid.rewards.shaping.subgoals import KEEP, SWITCH
from turngrid.rollouts.prompt_forms.hiper import Hiper
from turngrid.rollouts.prompt_forms.rlvmr import Rlvmr

FACTORS = {"gamma": 0.95, "lam": 0.95, "lam_segment": 0.95}
HIGH, LOW, TERM = (0.35, 7, 0.55, 7), (0.3, 0.4, 0.5, 0.6), (0.3, 0.3, 0.5, 0.5)
WON = ([0.91801, 0.9], [0.19056, 0.1225, 0.931, 0.4], [0.19637, 0.2225, 0.95, 0.5])
CUT_OFF = ([0.10351, -0.05], [0.19056, 0.1225, 0.0285, -0.6], [0.19637, 0.2225, 0, -0.5])
WITH_BOOTSTRAP = ([0.52909, 0.44637], [0.19056, 0.1225, 0.54292, -0.03], [0.19637, 0.2225, 0.49638, 0.0225])
SIZE = 7  # tokens of a turn: its parts and one that is of none


def one_episode(
    last: float, outcome: str, windows: bool = False, dead: bool = False, low_at: int = 4, **spans: Any
) -> tuple[Turns, Tokens]:
    """The specification's; a critic's heads say 7 and -7 where nobody may look."""
    rewards, rows = (0, 0, 0.5, last), []
    for first, end in pairwise((0, 1, 4) if windows else (0, 4)):
        turns = range(first, end)
        row: dict[str, Any] = {"episode": "e_0", "group": "e", "outcome": [OUTCOMES.index(outcome)]}
        row |= {name: list(turns) for name in ("state", "after", "action", "valid")} | {
            "label": [2 - t % 2 for t in turns]
        }
        for part, span in (SPANS | spans).items():
            row |= {f"span_{part}_{word}": [span[i]] * len(turns) for i, word in enumerate(("first", "last"))}
        row["mask"] = ([1] * SIZE + [0, 0]) * len(turns)
        row["reward"] = [number for t in turns for number in [0.0] * (SIZE - 1) + [rewards[t], 0, 0]]
        row["low"] = [LOW[t] if i == low_at else -7.0 for t in turns for i in range(SIZE + 2)]
        for name, said in (("high", HIGH), ("term", TERM)):
            row[name] = [7.0 if i else said[t] for t in turns for i in range(SIZE + 2)]
        rows.append(row | {"values": row["high"], "entropy": row["high"]})
    rows += [{**rows[0], "episode": "e_9", "mask": [0] * len(rows[0]["mask"])}] if dead else []
    names = ("low", "high", "term")
    turned = table([{key: row[key] for key in row if key not in names} for row in rows])
    length = turned.place.shape[1]
    low, high, term = (torch.tensor([row[name] + [9.0] * (length - len(row[name])) for row in rows]) for name in names)
    return turned, Tokens(turned.place >= 0, torch.zeros(turned.place.shape), high, heads=(low, term))


def parts_of(found: Estimate, turns: Turns) -> list[list[float]]:
    """Of high, low and term what their tokens learn, one number a turn that has some."""
    learned = []
    for part in ("subgoal", "action", "switch"):
        inside = turns.inside(turns.spans[part])
        numbers = turns.mean(found.advantages, inside)[turns.mask].tolist()
        assert (turns.spread(turns.mean(found.advantages, inside)) - found.advantages)[inside].abs().sum() < 1e-9
        learned.append(numbers[::2] if part == "subgoal" else numbers)
    return learned


@pytest.mark.parametrize(
    ("last", "outcome", "bootstrap", "wanted"),
    [(1.0, "won", True, WON), (0.0, "out_of_turns", False, CUT_OFF), (0.0, "out_of_turns", True, WITH_BOOTSTRAP)],
)
def test_hiper(last: float, outcome: str, bootstrap: bool, wanted: tuple[list[float], ...]) -> None:
    estimator = method("algo", "hiper", norm_adv=False, bootstrap_truncated=bootstrap, **FACTORS)
    for shape in ({}, {"windows": True}, {"dead": True}, {"windows": True, "dead": True}):
        turns, tokens = one_episode(last, outcome, **shape)
        found = estimator(turns, tokens)
        for numbers, expected in zip(parts_of(found, turns), wanted, strict=True):
            assert numbers == [pytest.approx(number, abs=1.01e-5) for number in expected]
        learned = turns.mean((found.advantages != 0).double())[turns.mask] * SIZE
        assert learned.tolist() == pytest.approx([6, 4, 6 - 2 * (not wanted[2][2]), 4]), "a KEEP names no subgoal anew"


def test_each_head_of_hipers_critic_has_its_own_returns_and_places() -> None:
    turns, tokens = one_episode(1.0, "won", windows=True, dead=True)
    found = method("algo", "hiper", **FACTORS)(turns, tokens)
    heads = [(found.returns, found.targets), *((turns.spread(head.returns), head.targets) for head in found.heads)]
    for (returns, targets), said, wanted, at in zip(heads, (HIGH, LOW, TERM), WON, (0, 4, 0), strict=True):
        values = said[::2] if said is HIGH else said
        assert returns[targets].tolist() == pytest.approx(
            [v + a for v, a in zip(values, wanted, strict=True)], abs=1e-5
        )
        assert turns.starts().roll(at, dims=1)[targets].tolist() == [True] * len(values)


def test_hiper_weighs_each_kind_by_its_own_turns() -> None:
    turns, tokens = one_episode(1.0, "won")
    found = method("algo", "hiper", **FACTORS)(turns, tokens)
    for numbers, raw in zip(parts_of(found, turns), WON, strict=True):
        exact = torch.tensor(raw).double()
        assert numbers == pytest.approx(((exact - exact.mean()) / exact.std(correction=0)).tolist(), abs=3e-4)


def test_an_answer_without_tags_learns_from_low_alone_and_is_valued_at_its_first_token() -> None:
    none = (0, 0)
    turns, tokens = one_episode(1.0, "won", switch=none, subgoal=none, action=none, low_at=0)
    found = method("algo", "hiper", norm_adv=False, **FACTORS)(turns, tokens)
    assert turns.at(turns.starts(), found.advantages)[0].tolist() == pytest.approx(WON[1], abs=1e-5)
    assert (turns.spread(turns.at(turns.starts(), found.advantages)) - found.advantages).abs().max() < 1e-12


# Of example X: planning p, explore e, reflection r, monitor m, none -; the second turn of P_1 goes
# back and is not understood
TAGGED = ["pe", "per", "ep", "eep", "r-", "pm", "mm"]
EARNED = [[1, 1], [0, 0, 1], [1, 0], [1, 1, 0], [0, 0], [1, 0], [0, 0]]
Z = [[1.095445, 0.447214], [-0.730297, -1.788854, 0.707107], [0.447214, -0.730297], [0.447214, 0.447214, -0.730297]]
Z += [[-0.707107, 0], [1.095445, 0], [0, 0]]  # planning 1 0 0 0 1, explore 1 0 1 1 1, reflection 1 0, monitor 0 0 0


@pytest.mark.parametrize("alpha", [0.5, 0.25])
def test_rlvmr(alpha: float) -> None:
    turns = example_x()
    label = torch.zeros_like(turns.tokens)
    label[turns.mask] = torch.tensor(["-perm".index(letter) for word in TAGGED for letter in word])
    turns = replace(turns, label=label)
    assert rule_rewards(turns)[turns.mask].tolist() == [number for row in EARNED for number in row]
    credit = method("credit", "rlvmr", alpha=alpha)
    found = credit(turns, spread(GRPO, turns))
    for row, mask, score, z in zip(found, turns.mask, GRPO, Z, strict=True):
        assert row[mask].tolist() == pytest.approx([alpha * score + (1 - alpha) * number for number in z], abs=1e-5)


def test_a_label_means_the_same_to_the_form_and_to_the_methods() -> None:
    assert Rlvmr.labels == RlvmrCredit.labels and Hiper.labels == (KEEP, SWITCH)
