"""Differences between sampler and trainer by turn, worked out by hand."""

import pytest
import torch

from turngrid.verl_plugin.training.step import differences

MASK = torch.tensor([[1, 1, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]])


def test_means_are_over_the_action_tokens_of_the_turns() -> None:
    sampler = torch.zeros(2, 6)
    trainer = torch.tensor([[0.1, -0.3, 9.0, 0.4, 9.0, 0.5], [9.0, 0.2, 9.0, 9.0, -0.2, 9.0]])
    assert differences(MASK, trainer, sampler) == pytest.approx(
        {
            "mismatch/nats": 1.7 / 6,
            "mismatch/nats/turns_1": 0.2,
            "mismatch/nats/turns_2": 0.3,
            "mismatch/nats/turns_3_to_4": 0.5,
        }
    )


def test_a_step_without_action_tokens_has_no_figures() -> None:
    assert differences(MASK * 0, torch.zeros(2, 6), torch.zeros(2, 6)) == {}
