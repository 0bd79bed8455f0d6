"""Estimators over turns against numbers worked out by hand, before and after whitening."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from example_x import by_turn, example_x, one_episode, table, taking
from torch import Tensor
from usual import method, usual
from verl.trainer.ppo.core_algos import compute_gae_advantage_return

from turngrid.algorithms.chosen import Chosen, algorithm
from turngrid.algorithms.estimators.gae import turn_returns
from turngrid.algorithms.pools import whiten
from turngrid.algorithms.registry import ESTIMATORS
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns

SHAPES: list[dict[str, Any]] = [{"windows": True}, {"dead": True, "padding": 3}, {"windows": True, "dead": True}]
RAW = [[0.45040, 0.4], [-0.35266, -0.28020, -0.2], [-0.49010, -0.1], [0.22427, 0.03510, 0.1]]
RAW += [[-0.19010, -0.1], [0.67020, 0.2], [-0.18020, -0.2]]
RETURNS = [[0.95040, 1], [0.04734, 0.01980, 0], [0.00990, 0], [0.72427, 0.73510, 0.5]]
RETURNS += [[0.00990, 0], [0.97020, 1], [0.01980, 0]]
WHITENED = [[1.41506, 1.25701], [-1.10334, -0.87611, -0.62460], [-1.53435, -0.31100], [0.70593, 0.11268, 0.31620]]
WHITENED += [[-0.59355, -0.31100], [2.10436, 0.62981], [-0.56250, -0.62460]]


def tokens_of(turns: Turns) -> Tokens:
    """The critic says of every token what it says of its turn's first one, and half of that by its
    further heads; a teacher says as the first."""
    value = turns.spread(turns.value).float()
    return Tokens(turns.place >= 0, torch.zeros(turns.place.shape), value, heads=(value / 2, value / 2), kl=value)


def approximately(numbers: list[list[float]]) -> list[Any]:
    return [pytest.approx(row, abs=1.01e-5) for row in numbers]


def test_turn_gae() -> None:
    turns = example_x()
    found = method("algo", "turn_ppo")(turns, tokens_of(turns))
    assert by_turn(found.advantages, turns) == approximately(WHITENED)
    assert by_turn(found.returns, turns) == approximately(RETURNS)
    assert by_turn(found.returns - turns.value, turns) == approximately(RAW)
    assert found.targets is None


def test_lambda_by_length() -> None:
    estimators = [method("algo", "turn_ppo", lambda_length=alpha) for alpha in (1, 0.01)]
    wanted = {1: 0.0, 2: 0.5, 10: 0.9, 50: 0.98}
    paths = {f"P_{n}": taking("S" * (n + 1), [0.0] * n) for n in wanted}
    for dead in (False, True):
        turns = example_x(paths=paths, dead=dead)
        lambdas, none = (estimator.of_policy(turns.acts.sum(dim=1)) for estimator in estimators)
        assert lambdas.flatten().tolist() == pytest.approx(list(wanted.values()), abs=1e-5)
        assert not none.any()


def test_the_critic_and_the_policy_have_lambdas_of_their_own() -> None:
    """Each like that of a run with this one lambda, and of two turns .5."""
    turns = example_x()
    seen = tokens_of(turns)
    found = method("algo", "turn_ppo", lambda_critic=1.0, lambda_length=1.0)(turns, seen)
    assert torch.equal(found.returns, method("algo", "turn_ppo", lam=1.0)(turns, seen).returns)
    of_two, of_three = (turn_returns(turns, turns.value, 0.99, lam)[0] for lam in (0.5, 2 / 3))
    aims = of_two.where(turns.mask.sum(dim=1, keepdim=True) == 2, of_three)
    whitened = whiten(aims - turns.value, turns.mask)
    assert by_turn(found.advantages, turns) == approximately(by_turn(whitened, turns))


def in_order(matrix: Tensor, turns: Turns) -> list[float]:
    """Numbers of the action tokens by episode, turn and token, in whatever rows they are."""
    acting = turns.place >= 0
    return matrix[acting][turns.place[acting].argsort(stable=True)].tolist()


def rewarded(turns: Turns) -> Tokens:
    """Values that rise inside a turn; a turn's reward is on its last token."""
    seen = tokens_of(turns)
    value = seen.value + 0.1 * (~turns.starts() & seen.mask)
    return replace(seen, value=value, reward=turns.spread(turns.reward).float() * turns.ends())


def by_hand(turns: Turns, lambdas: Any) -> list[float]:
    """GAE of each episode's tokens from the last to the first, before whitening."""
    seen, found = rewarded(turns), []
    values, rewards = in_order(seen.value, turns), in_order(seen.reward, turns)
    for length in turns.tokens.sum(dim=1).tolist():
        own, paid, running = values[:length], rewards[:length], 0.0
        advantages = []
        for value, reward, after in reversed(list(zip(own, paid, [*own[1:], 0.0], strict=True))):
            running = reward + after - value + lambdas(length) * running
            advantages.append(running)
        values, rewards = values[length:], rewards[length:]
        found += advantages[::-1]
    return found


def test_vapo_has_two_lambdas() -> None:
    """Episodes of X have 5 or 7 tokens, so that alpha .25 gives lambdas .2 and .42857."""
    turns = example_x()
    found = method("algo", "vapo", lambda_length=0.25)(turns, rewarded(turns))
    raw = torch.tensor(by_hand(turns, lambda length: 1 - 4 / length))
    wanted = (raw - raw.mean()) / (raw.var() + 1e-8).sqrt()
    assert in_order(found.advantages, turns) == pytest.approx(wanted.tolist(), abs=1e-5)
    learned = in_order(found.returns - rewarded(turns).value, turns)
    assert learned == pytest.approx(by_hand(turns, lambda length: 1.0), abs=1e-5)
    assert not found.advantages[turns.place < 0].any()


def test_vapo_with_one_lambda_is_verls_gae() -> None:
    turns = example_x()
    seen = rewarded(turns)
    found = method("algo", "vapo", gamma=0.9, lam=0.8, lambda_critic=None, lambda_length=None)(turns, seen)
    advantages, returns = compute_gae_advantage_return(seen.reward, seen.value, seen.mask.float(), 0.9, 0.8)
    assert found.advantages[seen.mask].tolist() == pytest.approx(advantages[seen.mask].tolist(), abs=1e-5)
    assert found.returns[seen.mask].tolist() == pytest.approx(returns[seen.mask].tolist(), abs=1e-5)


def test_a_critic_of_turns_may_be_trained_on_first_tokens_only() -> None:
    turns = example_x(windows=True, padding=2)
    targets = method("algo", "turn_ppo", value_at="first")(turns, tokens_of(turns)).targets
    assert turns.mean(targets.float()).gt(0).equal(turns.mask) and int(targets.sum()) == int(turns.mask.sum()) == 16


def test_an_episode_that_was_cut_off_may_go_on_with_its_last_value() -> None:
    turns = example_x()  # P_1 alone is out of turns; it earned nothing, and its values are .4 .3 .2
    found = method("algo", "turn_ppo", gamma=0.5, lam=1.0, bootstrap_truncated=True)(turns, tokens_of(turns))
    plain = method("algo", "turn_ppo", gamma=0.5, lam=1.0)(turns, tokens_of(turns))
    cut, usual = (by_turn(one.returns, turns) for one in (found, plain))
    assert cut[1] == pytest.approx([0.025, 0.05, 0.1]) and usual[1] == pytest.approx([0, 0, 0])
    assert cut[:1] + cut[2:] == usual[:1] + usual[2:]


@pytest.mark.parametrize("name", ["turn_ppo", "bi_level_gae"])
def test_one_turn_that_filters_left_has_no_variance_and_is_0(name: str) -> None:
    found = method("algo", name)(*one_episode([1.0], [[0.5]]))
    assert not found.advantages.any() and found.returns.flatten()[0] == 1


def test_bi_level_gae() -> None:
    turns, tokens = one_episode([0.0, 1.0], [[0.1, 0.2], [0.3, 0.4, 0.5]])
    found = method("algo", "bi_level_gae")(turns, tokens)
    mask = tokens.mask
    assert found.returns[mask].tolist() == pytest.approx([0.95, 0.95, 1, 1, 1])
    raw = (found.returns - tokens.value)[mask]
    assert raw.tolist() == pytest.approx([0.85, 0.75, 0.7, 0.6, 0.5])
    assert found.advantages[mask].tolist() == pytest.approx(((raw - raw.mean()) / raw.std()).tolist(), abs=1e-5)


def test_bi_level_gae_discounts_inside_a_turn_too() -> None:
    """G is .7675 and 1: A_n = G - v_n, then A_j = .9 v_{j+1} - v_j + .9 * .5 A_{j+1}."""
    turns, tokens = one_episode([0.0, 1.0], [[0.1, 0.2], [0.3, 0.4, 0.5]])
    found = method("algo", "bi_level_gae", gamma_turn=0.95, gamma=0.9, lam=0.5)(turns, tokens)
    goal = 0.2 + (0.95 * 0.5 - 0.2) + 0.95 * 0.5 * 0.5
    wanted = [0.9 * 0.2 - 0.1 + 0.45 * (goal - 0.2), goal - 0.2]
    wanted += [0.9 * 0.4 - 0.3 + 0.45 * (0.9 * 0.5 - 0.4 + 0.45 * 0.5), 0.9 * 0.5 - 0.4 + 0.45 * 0.5, 0.5]
    assert (found.returns - tokens.value)[tokens.mask].tolist() == pytest.approx(wanted)


def test_a_reward_of_nothing_ends_a_turn_all_the_same() -> None:
    """The released code's turns end where a reward stands: with one at the end only, it would
    discount nothing here."""
    found = method("algo", "bi_level_gae")(*one_episode([0.0, 0.0, 1.0], [[0.0, 0.0]] * 3)).returns
    assert found[0, ::4].tolist() == pytest.approx([0.95**2, 0.95, 1])


def estimate(name: str, turns: Turns, tokens: Tokens) -> Estimate:
    return Chosen({"algo": {"name": name, "state": None, **usual("algo", name)}}).of("algo", 1)[name](turns, tokens)


def of_tokens(name: str, found: Estimate, turns: Turns) -> list[Tensor]:
    """Advantages and returns as (E, K) means over the turn's tokens."""
    grain = algorithm(name).grain
    return [turns.mean(numbers) if grain == "token" else numbers * turns.mask for numbers in found[:2]]


def test_distill() -> None:
    """Teacher -.1 -2 -.5, student -.3 -.4 -.5, whatever the reward."""
    turns, tokens = one_episode([1.0], [[0.5] * 3])
    kl = torch.zeros(turns.place.shape)
    kl[0, :3] = torch.tensor([-0.1, -2.0, -0.5]) - torch.tensor([-0.3, -0.4, -0.5])
    found = estimate("distill", turns, replace(tokens, kl=kl)).advantages
    assert found[0].tolist() == pytest.approx([0.2, -1.6, 0.0, 0.0, 0.0], abs=1e-5)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_windows_and_dead_rows_change_nothing(name: str, shape: dict[str, Any]) -> None:
    plain, other = example_x(), example_x(**shape)
    wanted = of_tokens(name, estimate(name, plain, tokens_of(plain)), plain)
    for one, two in zip(wanted, of_tokens(name, estimate(name, other, tokens_of(other)), other), strict=True):
        torch.testing.assert_close(two, one)
    assert wanted[0].any()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_stands_off_the_action_tokens_is_not_read(name: str) -> None:
    turns = example_x(windows=True, padding=2)
    tokens = tokens_of(turns)
    odd = tokens.value.masked_fill(~tokens.mask, torch.nan)
    odd = replace(tokens, value=odd, heads=(odd / 2, odd / 2), kl=odd)
    for one, two in zip(*(of_tokens(name, estimate(name, turns, t), turns) for t in (tokens, odd)), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_equal_values_and_rewards_teach_nothing(name: str) -> None:
    turns = example_x()
    named = {name: numbers * 0 for name, numbers in turns.named.items()}
    none = turns.parsed & False
    same = replace(turns, reward=turns.reward * 0, value=turns.value * 0, named=named, parsed=none)
    found = estimate(name, same, tokens_of(same))
    assert not found.advantages.any() and not found.returns.any()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_batch_without_any_action_is_no_error(name: str) -> None:
    row = {"mask": [0, 0], "reward": [0.0, 0.0], "entropy": [0.0, 0.0], "values": [0.5, 0.5]}
    spans = [f"span_{part}_{end}" for part in ("switch", "subgoal", "action") for end in ("first", "last")]
    records = {name: [] for name in ("state", "after", "action", "valid", "label", "named_plan_share", *spans)}
    turns = table([{"episode": "e_0", "group": "e", **row, **records, "outcome": [0]}])
    value = torch.full((1, 2), 0.5)
    found = estimate(
        name, turns, Tokens(turns.place >= 0, torch.zeros(1, 2), value, heads=(value, value), kl=value * 0)
    )
    assert not turns.spread(found.advantages).any() if algorithm(name).grain == "turn" else not found.advantages.any()
