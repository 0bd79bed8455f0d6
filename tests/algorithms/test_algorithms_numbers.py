"""Each estimator against numbers worked by hand."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, tensor

from turngrid.algorithms.group import grpo, lite_ppo, rloo
from turngrid.algorithms.pools import whiten

# Two groups of two episodes: the scores are 6, 3 and 9, 12, each in two turns with an observation
# token between.
MASK = tensor([[1.0, 1, 0, 1, 0]] * 4)
REWARDS = tensor([[0.0, 2, 0, 4, 0], [0, 3, 0, 0, 0], [0, 0, 0, 9, 0], [0, 6, 0, 6, 0]])
GROUPS = ["a", "a", "b", "b"]
HALF = math.sqrt(0.5)


def on_action_tokens(advantages: list[float]) -> Tensor:
    return tensor(advantages).unsqueeze(-1) * MASK


@pytest.mark.parametrize(
    ("estimator", "wanted"),
    [
        (rloo, [3.0, -3.0, -3.0, 3.0]),
        (partial(grpo, norm_adv_by_std_in_grpo=False), [1.5, -1.5, -1.5, 1.5]),
        (grpo, [HALF, -HALF, -HALF, HALF]),  # the unbiased standard deviation of {6, 3} is 3 / sqrt(2)
    ],
)
def test_two_groups_by_hand(estimator: Any, wanted: list[float]) -> None:
    advantages, returns = estimator(REWARDS, MASK, GROUPS)
    torch.testing.assert_close(advantages, on_action_tokens(wanted), atol=1e-6, rtol=0)
    assert returns is advantages


def drawn(count: int) -> list[float]:
    return torch.rand(count, generator=torch.Generator().manual_seed(0)).mul(20).sub(10).tolist()


@pytest.mark.parametrize("estimator", [grpo, rloo])
@pytest.mark.parametrize("samples", [2, 3, 7, 8, 16, 31])
def test_equal_scores_give_exactly_no_advantage(estimator, samples: int) -> None:
    """One group a score; in float32 the mean of eight 0.7 is another number, and GRPO made 0.056 of
    the difference."""
    scores = [0.7, 0.1, 1.0, 1 / 3, 1e-3, -2.7, 1e6, *drawn(200)]
    rewards = tensor(scores).repeat_interleave(samples).unsqueeze(-1)
    advantages, _ = estimator(rewards, torch.ones_like(rewards), [score for score in scores for _ in range(samples)])
    assert advantages.dtype == torch.float32 and not advantages.any()


@pytest.mark.parametrize("estimator", [grpo, rloo])
def test_scores_that_differ_by_rounding_alone_are_equal(estimator) -> None:
    """0.7 in one turn, in seven of 0.1, and in two; then a difference that is one."""
    turns = [[0.7] + [0.0] * 6, [0.1] * 7, [0.3, 0, 0, 0.4, 0, 0, 0]]
    assert len({math.fsum(row) for row in tensor(turns).tolist()}) > 1
    assert not estimator(tensor(turns), torch.ones(3, 7), ["a"] * 3)[0].any()
    turns[0][0] += 1e-5
    assert estimator(tensor(turns), torch.ones(3, 7), ["a"] * 3)[0].all()


@pytest.mark.parametrize("tokens", [2, 3, 8, 1000, 20479])
def test_whitening_equal_values_gives_exactly_zero(tokens: int) -> None:
    for value in (0.7, 0.1, -1 / 3, 1e6, *drawn(20)):
        assert not whiten(torch.full((1, tokens), value), torch.ones(1, tokens)).any()


@pytest.mark.parametrize(("estimator", "half"), [(grpo, HALF), (rloo, 3.0), (lite_ppo, HALF)])
def test_a_sample_alone_in_its_group_is_a_dead_row(estimator, half: float) -> None:
    """Lite PPO's deviation is that of 6 and 3: the lone 9 and 12 do not count."""
    advantages, _ = estimator(REWARDS, MASK, ["a", "a", "b", "c"])
    torch.testing.assert_close(advantages, on_action_tokens([half, -half, 0.0, 0.0]), atol=1e-6, rtol=0)
    assert not estimator(REWARDS, MASK, ["a", "b", "c", "d"])[0].any()
    dead = MASK * tensor([[1.0], [1], [1], [0]])  # an episode without an action, in the group of the first two
    expected = estimator(REWARDS[:3], MASK[:3], ["a", "a", "b"])[0]
    torch.testing.assert_close(estimator(REWARDS * dead, dead, ["a", "a", "b", "a"])[0][:3], expected)
