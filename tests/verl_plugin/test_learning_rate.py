"""A resumed run has its config's learning rate, at the place of its schedule where it was."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from turngrid.verl_plugin.changes import rate_of_config

WARM_UP = 4


def manager(rate: float) -> Any:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))], lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / WARM_UP))
    return SimpleNamespace(optimizer=optimizer, lr_scheduler=scheduler)


def advance(one: Any, steps: int) -> list[float]:
    """Return the rates of further updates."""
    rates = []
    for _ in range(steps):
        rates.append(one.optimizer.param_groups[0]["lr"])
        one.optimizer.step()
        one.lr_scheduler.step()
    return rates


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_the_config_decides_the_rate(factor: float) -> None:
    saved = manager(0.1)
    advance(saved, 2)
    states = copy.deepcopy((saved.optimizer.state_dict(), saved.lr_scheduler.state_dict()))

    def load_checkpoint(own: Any) -> None:
        own.optimizer.load_state_dict(states[0])
        own.lr_scheduler.load_state_dict(states[1])

    resumed = manager(0.1 * factor)
    rate_of_config(load_checkpoint, resumed)
    unbroken = [factor * rate for rate in advance(saved, 5)]
    assert unbroken == [factor * rate for rate in (0.05, 0.1 * 0.75, 0.1, 0.1, 0.1)]
    assert advance(resumed, 5) == unbroken
