"""Methods that look at what follows a turn: episodes that were cut off while turns cost something,
and summaries between turns."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import credit_of, example_x, one_episode, random_paths
from test_credit_graft import table
from torch import Tensor
from usual import method

from turngrid.algorithms.estimators.gae import turn_returns
from turngrid.algorithms.registry import SLOTS
from turngrid.algorithms.turns import Turns, repeated_states

CUT = ("P", "A x A x A x A", [-0.1, -0.1, -0.1], "out_of_turns")
ENDED = ("P", "A y B", [0], "lost")


# ---- episodes that were cut off


@pytest.mark.parametrize(("gamma", "first"), [(1.0, -0.3), (0.5, -0.175)])
def test_gigpo_counts_the_costs_that_running_out_of_turns_spares(gamma: float, first: float) -> None:
    """Returns to go of -.3 -.2 -.1 would make the last turn the best of A. With as many turns ahead
    all three have the first's."""
    made = method("credit", "gigpo", gamma=gamma, std=False)
    assert credit_of(made, table(CUT, ENDED)) == [pytest.approx([first / 4] * 3), pytest.approx([-first * 3 / 4])]
    assert credit_of(method("credit", "gigpo", gamma=gamma), table(CUT, CUT)) == [[0.0] * 3] * 2
    published = credit_of(replace(made, costs_go_on=False, gamma=1.0), table(CUT, ENDED))
    assert published == [pytest.approx([-0.15, -0.05, 0.05]), pytest.approx([0.15])]


def test_gigpo_fills_up_with_the_episodes_mean_cost() -> None:
    """The returns -.2 -.1 0 become -.2, -.1 - .2 / 3 and -.4 / 3: the turn without a cost is the
    best, by .1 - .2 / 3 a turn."""
    turns = table(("P", "A x A x A y A", [-0.1, -0.1, 0], "out_of_turns"))
    mean = (-0.2 - 0.5 / 3 - 0.4 / 3) / 3
    wanted = pytest.approx([-0.2 - mean, -0.5 / 3 - mean, -0.4 / 3 - mean])
    assert credit_of(method("credit", "gigpo", gamma=1.0, std=False), turns) == [wanted]


@pytest.mark.parametrize("outcome", ["won", "lost"])
def test_the_end_of_a_game_and_rewards_above_0_are_as_published(outcome: str) -> None:
    turns = table(("P", "A x A x A", [-0.1, 0.4], outcome), ("P", "A x A x A", [0.2, 0.4], "out_of_turns"))
    for name in ("gigpo", "hgpo"):
        assert credit_of(method("credit", name), turns) == credit_of(method("credit", name, costs_go_on=False), turns)


def test_hgpo_counts_them_too() -> None:
    """By one state -.3 -.3 -.3 0, by two -.3 -.3, which are equal: the mean return is -.225."""
    found = credit_of(method("credit", "hgpo", gamma=1.0, std=False, history=1), table(CUT, ENDED))
    assert found == [pytest.approx([-0.075] * 3, abs=1e-6), pytest.approx([0.225], abs=1e-6)]
    hgpo = method("credit", "hgpo", gamma=1.0, std=False, history=1, costs_go_on=False)
    published = credit_of(hgpo, table(CUT, ENDED))
    assert published[0][2] == pytest.approx((2 * 0.05 + 3 * 0.05) / 5, abs=1e-6)


@pytest.mark.parametrize(("bootstrap", "raw"), [(False, [0.1 - 0.1, 0.0]), (True, [0.05, 0.1])])
def test_a_critics_turns_are_not_paid_for_the_costs_that_the_cut_spares(bootstrap: bool, raw: list[float]) -> None:
    """V is -.2 throughout. r + 0 - V would be .2 for the last turn. The critic learns the returns
    as they were: -.1 and 0."""
    turns = table(("P", "A x A y A", [-0.1, 0], "out_of_turns"))
    aims, returns = turn_returns(turns, turns.value, 0.5, 1.0, bootstrap)
    assert (aims - turns.value)[0].tolist() == pytest.approx(raw, abs=1e-7)
    assert returns[0].tolist() == pytest.approx([-0.15, -0.1] if bootstrap else [-0.1, 0.0])
    ended = replace(turns, outcome=turns.outcome * 0 + 1)
    aims, returns = turn_returns(ended, turns.value, 0.5, 1.0, bootstrap)
    assert (aims - turns.value)[0].tolist() == pytest.approx([0.1, 0.2]) and aims.equal(returns)


def test_bi_level_gae_is_not_paid_either() -> None:
    """One turn of values -.1 -.3 -.2, r 0, lambda .5. Its last token has 0 - U + min(U, 0) = 0
    where the episode was cut off, else .2; those before have v' - v + A' / 2."""
    for outcome, wanted in ((2, [-0.15, 0.1, 0.0]), (1, [-0.1, 0.2, 0.2])):
        turns, tokens = one_episode([0.0], [[-0.1, -0.3, -0.2]], outcome)
        found, raw = method("algo", "bi_level_gae", lam=0.5)(turns, tokens), torch.tensor(wanted)
        whitened = (raw - raw.mean()) / raw.std()
        assert found.advantages[tokens.mask].tolist() == pytest.approx(whitened.tolist(), abs=1e-4)
        assert found.returns[tokens.mask].tolist() == pytest.approx([-0.2, -0.1, 0.0], abs=1e-6)


def test_hiper_is_not_paid_either() -> None:
    """V of all heads is -.2, r 0, one turn: 0 in each part of the answer where it was cut off, .2
    where it ended."""
    for outcome, wanted in ((2, 0.0), (1, 0.2)):
        turns, tokens = one_episode([0.0], [[-0.2] * 6], outcome)
        tokens = replace(tokens, heads=(tokens.value, tokens.value))
        found = method("algo", "hiper", norm_adv=False)(turns, tokens)
        assert found.advantages[tokens.mask].tolist() == pytest.approx([wanted] * 6)
        learned = [found.returns, *(turns.spread(head.returns) for head in found.heads)]
        assert all(one[tokens.mask].tolist() == pytest.approx([0.0] * 6, abs=1e-7) for one in learned)


# ---- summaries


PLAIN = ("P", "A x B y C", [0, 1], "won")
SUMMED_UP = ("P", "A x B * B y C", [0, 0, 1], "won")


@pytest.mark.parametrize("name", ["gigpo", "hgpo", "mt_grpo", "graft", "salt"])
def test_two_episodes_that_differ_by_a_summary_have_the_same_credit(name: str) -> None:
    made = method("credit", name, **({"turn": "reward"} if name == "mt_grpo" else {}))
    plain, summed_up = credit_of(made, table(PLAIN, SUMMED_UP))
    assert plain == [0.0, 0.0] and summed_up == [0.0, 0.0, 0.0]
    plain, summed_up, lost = credit_of(made, turns := table(PLAIN, SUMMED_UP, ("P", "A x B z D", [0, 0], "lost")))
    assert plain == [*summed_up[:1], *summed_up[2:]] and summed_up[1] == 0.0
    assert credit_of(made, table(PLAIN, PLAIN, ("P", "A x B z D", [0, 0], "lost"))) == [plain, plain, lost]
    assert repeated_states(turns) == 1.0


def with_summaries(turns: Turns) -> tuple[Turns, Tensor]:
    """A summary in every episode of two turns or more, after turns 1 to 3 in turn; and the place of
    each turn that there was."""
    width = turns.mask.shape[1] + 1
    before = 1 + torch.arange(len(turns.mask)) % 3
    before = before.where(before <= turns.last, width).unsqueeze(1)
    column = torch.arange(width)
    source = (column - (column > before).long()).clamp(max=width - 2)
    found: dict[str, Any] = {}
    for name, matrix in vars(turns).items():
        if isinstance(matrix, Tensor) and matrix.shape == turns.mask.shape:
            found[name] = matrix.gather(1, source)
    summary = (column == before) & found["mask"]
    found["mask"] = (column < (turns.last + 1).unsqueeze(1)) | (
        (column == (turns.last + 1).unsqueeze(1)) & (before < width)
    )
    found["reward"] = found["reward"].masked_fill(summary, 0.0)
    found["state"] = found["state"].where(~summary, 10**6 + torch.arange(summary.numel()).reshape(summary.shape))
    for name in ("log_prob", "scored"):  # one token a turn
        tokens = getattr(turns, name)
        found[name] = turns.mean(tokens).gather(1, source).masked_fill(summary, torch.nan)
    found["place"] = torch.arange(summary.numel()).reshape(summary.shape).where(found["mask"], -1)
    named = {name: matrix.gather(1, source).masked_fill(summary, 0.0) for name, matrix in turns.named.items()}
    return replace(turns, **found, named=named, spans={}, aside=summary), ~summary & found["mask"]


OTHERS = ("tree", "rlvmr", "role_norm")  # role_norm compares asides too, and refuses summaries


@pytest.mark.parametrize("name", [name for name in SLOTS["credit"] if name not in OTHERS])
def test_summaries_change_no_credit_of_other_turns(name: str) -> None:
    """Entropies are equal, since those of summaries are scaled with those of other turns."""
    for seed in range(3):
        turns = example_x(paths=random_paths(seed))
        turns = replace(turns, entropy=0.5 * turns.mask.double(), valid=turns.mask & (turns.state % 2 == 0))
        turns = replace(turns, reward=turns.reward - 0.125 * ~turns.valid)
        other, kept = with_summaries(turns)
        assert other.aside is not None and other.aside.any()
        base = torch.arange(len(turns.group)).double().unsqueeze(1)
        made = method("credit", name)
        one = made(turns, base.expand(turns.mask.shape).clone())[turns.mask]
        two = made(other, base.expand(other.mask.shape).clone())[kept]
        torch.testing.assert_close(two, one, rtol=0, atol=1e-12)


def test_empgs_bonus_looks_past_a_summary() -> None:
    """exp(-H) of the next turn that acts, H scaled from 0 (the summary's) over .5 to 1."""
    turns = table(SUMMED_UP)
    turns = replace(turns, entropy=torch.tensor([[2.0, 1.0, 1.5]]).double())
    bonus = credit_of(method("credit", "empg", bonus=1.0), turns)[0]
    assert bonus == pytest.approx([torch.tensor(-0.5).exp().item()] * 2 + [0.0], abs=1e-6)


def test_estimators_over_turns_discount_no_summary() -> None:
    values = [[0.1, 0.2], [0.3, 0.4]]
    turns, tokens = one_episode([0.0, 1.0], values)
    summed_up, more = one_episode([0.0, 0.0, 1.0], [values[0], [0.7, 0.8], values[1]], 0, [0, 1, 0])
    for estimator in (method("algo", "turn_ppo"), method("algo", "bi_level_gae")):
        one, two = estimator(turns, tokens).returns, estimator(summed_up, more).returns
        if estimator.grain == "turn":
            one, two = turns.spread(one), summed_up.spread(two)
        one, two = one[tokens.mask].tolist(), two[more.mask].tolist()
        assert two[:2] + two[4:] == pytest.approx(one) and two[2:4] == pytest.approx(one[2:])
