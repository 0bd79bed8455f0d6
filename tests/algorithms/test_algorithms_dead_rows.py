"""Rows without a sampled token (verl's dummy rows, an episode without an action) change no other
row's numbers."""

import pytest
import torch
from token_gae import token_gae
from torch import Tensor

from turngrid.algorithms.group import grpo, lite_ppo, rloo
from turngrid.algorithms.reinforce import reinforce_plus_plus

ROWS, TOKENS = 8, 12
PROMPTS = ["a", "b"] * (ROWS // 2)


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, values and masks with holes, drawn once."""
    generator = torch.Generator().manual_seed(seed)
    mask = (torch.rand(ROWS, TOKENS, generator=generator) < 0.5).float()
    mask[:, 0] = 1
    return torch.randn(ROWS, TOKENS, generator=generator) * mask, torch.randn(ROWS, TOKENS, generator=generator), mask


def with_dead_rows(rows: Tensor, content: float) -> Tensor:
    return torch.cat([rows, torch.full((3, TOKENS), content)])


ESTIMATORS = {
    "ppo": lambda rewards, values, mask, index: token_gae(rewards, values, mask, 0.9, 0.8),
    "grpo": lambda rewards, values, mask, index: grpo(rewards, mask, index),
    "grpo_without_std": lambda rewards, values, mask, index: grpo(rewards, mask, index, norm_adv_by_std_in_grpo=False),
    "rloo": lambda rewards, values, mask, index: rloo(rewards, mask, index),
    "lite_ppo": lambda rewards, values, mask, index: lite_ppo(rewards, mask, index),
    "reinforce_plus_plus": lambda rewards, values, mask, index: reinforce_plus_plus(rewards, mask, 0.9),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("dead_index", [["pad"] * 3, ["a", "b", "pad"]], ids=["own group", "a live group"])
def test_dead_rows_change_no_advantage(name: str, dead_index: list[str]) -> None:
    rewards, values, mask = batch()
    expected = ESTIMATORS[name](rewards, values, mask, PROMPTS)
    padded = [with_dead_rows(rewards, 0.0), with_dead_rows(values, 5.0), with_dead_rows(mask, 0.0)]
    actual = ESTIMATORS[name](*padded, PROMPTS + dead_index)
    for wanted, got in zip(expected, actual, strict=True):
        torch.testing.assert_close(got[:ROWS], wanted)
        assert not got[ROWS:].any()


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_one_dummy_row_is_no_group_of_one(name: str) -> None:
    rewards, values, mask = batch()
    padded = [torch.cat([x, torch.zeros(1, TOKENS)]) for x in (rewards, values, mask)]
    assert not ESTIMATORS[name](*padded, [*PROMPTS, "pad"])[0][-1].any()
