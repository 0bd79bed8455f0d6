"""On-policy distillation: the specification's numbers."""

import example_step  # noqa: F401 - finds the next one
import pytest
import torch
from example_x import example_x

from turngrid.algorithms.chosen import Chosen, slots_of
from turngrid.config.compose import composer
from turngrid.verl_plugin.training.turn_rows import KL_IN_REWARD, TurnRows


def test_a_tokens_advantage_is_what_the_teacher_thinks_of_it() -> None:
    """Teacher -.1 -2 -.5, student -.3 -.4 -.5: .2 -1.6 0, with whatever reward."""
    turns = example_x(dead=True)
    scores, ids = torch.rand(turns.turn_ids.shape), turns.turn_ids
    told = torch.zeros_like(scores)
    told[0, :3] = torch.tensor([-0.1, -2.0, -0.5]) - torch.tensor([-0.3, -0.4, -0.5])
    rows = object.__new__(TurnRows)
    rows.tokens = {"rm_scores": scores, "response_mask": ids > 0, KL_IN_REWARD: scores + 1.0 * told}  # with kl_coef 1
    with composer() as compose:
        config = compose(["algo=distill", "algo.teacher=asset://tiny", "scale=laptop"])
    assert config.algorithm.use_kl_in_reward and config.algorithm.kl_ctrl.kl_coef == 1
    (estimator,) = Chosen(slots_of(config)).of("algo", 1).values()
    found = estimator(*rows.of_estimator(turns)).advantages
    assert found[0, :3].tolist() == pytest.approx([0.2, -1.6, 0.0], abs=1e-5)
    assert not found[1:].abs().gt(1e-6).any()
