"""``credit=graft`` against numbers worked out by hand; those of example X are compared in
test_credit_numbers.py."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import Paths, credit_of, example_x, hash_of
from usual import method

from turngrid.algorithms.turns import OUTCOMES, Turns

# Group P, gamma 0.95:
#   Q(S2, c) = 0.5, and the game is lost:            V(S2) = 0.5
#   Q(S1, b) = (1 + [0.25 + 0.95 * 0.5]) / 2 = 0.8625, since P_0 won by it and P_3 went on from S2;
#   Q(S1, c) = 0.95 * V(S0), which is less:          V(S1) = 0.8625
#   Q(S0, a) = 0.95 * 0.8625; Q(S0, b) = 0:          V(S0) = 0.819375
#   Q(S3, c) = 0:                                    V(S3) = 0
# Group Q: V(U2) = 1, V(U1) = 0, V(U0) = 0.95.
GRAFT = [
    [0.0, 0.1375],  # 0.95 * 0.8625 - 0.819375; won: 1 - V(S1)
    [0.0, -0.08409375, -0.819375],
    [-0.819375, 0.0],
    [0.0, -0.1375, 0.0],
    [-0.95, 0.0],
    [0.0, 0.0],
    [-0.95, 0.0],
]

# The mean over all turns that answered a state:
#   V(S1) = (1 + 0.95 V(S0) + 0.25 + 0.95 * 0.5) / 3, V(S0) = 3 * 0.95 V(S1) / 5 = 0.57 V(S1), so
#   V(S1) = 0.575 / 0.8195.
# Group Q: V(U0) = (0 + 0.95 + 0) / 3.
S1 = 0.575 / 0.8195
S0, U0 = 0.57 * S1, 0.95 / 3
GRAFT_MEAN = [
    [0.95 * S1 - S0, 1 - S1],
    [0.95 * S1 - S0, 0.95 * S0 - S1, -S0],
    [-S0, 0.0],
    [0.95 * S1 - S0, 0.25 + 0.95 * 0.5 - S1, 0.0],
    [-U0, 0.0],
    [0.95 - U0, 0.0],
    [-U0, 0.0],
]


def table(*episodes: tuple[str, str, list[float], str]) -> Turns:
    """Of (group, path "state action state ...", rewards, outcome); the action "*" is a summary. The
    critic says -0.2 of every turn."""
    paths: Paths = {
        f"{group}{n}": (path, rewards, [0.5] * len(rewards), [-0.2] * len(rewards), OUTCOMES.index(outcome))
        for n, (group, path, rewards, outcome) in enumerate(episodes)
    }
    turns = example_x(paths=paths)
    return replace(turns, aside=turns.action == hash_of("*"))


def graft(turns: Turns, **settings: Any) -> list[list[float]]:
    return credit_of(method("credit", "graft", **settings), turns)


@pytest.mark.parametrize(("outcome", "wanted"), [("out_of_turns", 0 + 0.9 - 0.9), ("lost", 0 - 0.9), ("won", 0 - 0.9)])
def test_a_cut_episode_goes_on_in_the_graph_and_one_that_ended_does_not(outcome: str, wanted: float) -> None:
    """V(B) = 1; the first episode's only move is one of two times that x was seen in A."""
    turns = table(("P", "A x B", [0], outcome), ("P", "A y B z C", [0, 1], "won"))
    first, second = graft(turns, gamma=0.9)
    assert first == pytest.approx([wanted]) and second == pytest.approx([0.0, 0.0])


def test_where_no_turn_answered_the_last_state_nothing_follows() -> None:
    first, second = graft(table(("P", "A x B", [0.5], "out_of_turns"), ("P", "A y D", [0.25], "out_of_turns")))
    assert first == [0.0] and second == [0.25 - 0.5]


def test_a_loop_with_a_reward_converges() -> None:
    """V(A) = 1 / (1 - 0.95) = 20 by the loop, and B leads into it: V(B) = 19."""
    turns = table(("P", "B y A x A", [0, 1], "out_of_turns"), ("P", "B z C", [0], "lost"))
    first, second = graft(turns)
    assert first == pytest.approx([0.0, 0.0], abs=1e-6) and second == pytest.approx([-19.0], abs=1e-6)
    assert all(abs(number) <= 1001 for row in graft(turns, gamma=1.0) for number in row)  # bounded sweeps


def test_states_are_shared_within_a_group_only() -> None:
    winner, loser = ("A x B y C", [0, 1], "won"), ("A x B z D", [0, 0], "lost")
    together = graft(table(("P", *winner), ("P", *loser)))
    assert together == [pytest.approx([0.0, 0.0]), pytest.approx([0.0, -1.0])]
    apart = graft(table(("P", *winner), ("Q", *loser)))
    assert apart == [pytest.approx([0.0, 0.0]), [0.0, 0.0]]


def test_it_takes_the_size_of_the_advantages_that_were_there() -> None:
    turns = example_x()
    before = torch.arange(turns.mask.numel(), dtype=torch.float64).reshape(turns.mask.shape)
    both = (method("credit", "graft", backup="mean", scale=scale) for scale in (None, True))
    plain, scaled = (made(turns, before)[turns.mask] for made in both)
    assert scaled.std() == pytest.approx(before[turns.mask].std().item())
    assert (scaled / plain)[plain != 0].std() < 1e-9
    same = replace(turns, reward=torch.zeros_like(turns.reward))
    assert (method("credit", "graft", scale=True)(same, before)[turns.mask] == 0).all()


def test_where_nothing_follows_an_episode_that_was_cut_off() -> None:
    turns = table(("P", "A x B", [0], "out_of_turns"), ("P", "A y B z C", [0, 1], "won"))
    first, second = graft(turns, gamma=0.9, backup="mean", bootstrap_truncated=False)
    assert first == pytest.approx([0 - 0.45]) and second == pytest.approx([0.45, 0.0])  # V(A) = (0 + 0.9) / 2


@pytest.mark.parametrize("bootstrap", [False, None])
def test_running_out_of_turns_is_not_paid_for_the_costs_that_it_spares(bootstrap: bool | None) -> None:
    """V(A) = (-.1 + .5 V(A) + 0) / 2 = -.06667. Nothing follows B, and 0 less V(A) would be the
    largest credit of all."""
    turns = table(("P", "A x A y B", [-0.1, 0], "out_of_turns"), ("Q", "A x A y B", [-0.1, 0], "lost"))
    cut, lost = graft(turns, gamma=0.5, backup="mean", bootstrap_truncated=bootstrap)
    assert cut == pytest.approx([-0.1 + 0.5 * -0.05 / 0.75 + 0.05 / 0.75, 0.0])
    assert lost == pytest.approx([cut[0], 0.05 / 0.75])  # the end of a game spares costs rightly


def test_what_the_last_turn_before_a_cut_earned_is_its_own() -> None:
    """V(A) = (.5 + 0) / 2: above 0 it is what the others earned there."""
    turns = table(("P", "A x B", [0.5], "out_of_turns"), ("P", "A y C", [0], "out_of_turns"))
    assert graft(turns, backup="mean") == [pytest.approx([0.25]), pytest.approx([-0.25])]


def test_gains_of_rounding_alone_are_none() -> None:
    """The rewards of x and y are equal but for float32, and what is 0 must not be scaled to the
    size of other credit."""
    turns = table(("P", "A x B", [0.1 + 0.2], "won"), ("P", "A y C z D", [0.1, 0.2], "won"))
    made = method("credit", "graft", gamma=1.0, scale=True)(turns, torch.tensor([[1.0, 0], [-1, 1]]).double())
    assert not made[turns.mask].any()
