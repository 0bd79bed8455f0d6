"""When rows whose advantage is 0 may be left out of a policy's update: asked of configs, and of
verl's policy losses."""

from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from step_probe import composed
from torch import Tensor
from usual import method
from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import ActorConfig

from turngrid.algorithms.losses.turn_clip import TurnClip
from turngrid.algorithms.registry import SLOTS
from turngrid.verl_plugin.training.zero_advantages import BY_PASS, NEEDS_ALL_ROWS, PASSES, WEIGHED, may_be_left_out

ACTOR = "actor_rollout_ref.actor"
NEEDY = {
    "the policy loss": f"{ACTOR}.policy_loss.loss_mode=kl_cov",
    "the KL to the reference": f"{ACTOR}.use_kl_loss=true",
    "the entropy bonus": f"{ACTOR}.entropy_coeff=0.01",
    "the entropy in the metrics": f"{ACTOR}.calculate_entropy=true",
    "a loss term": "terms={mine: {}}",
}


@pytest.fixture(scope="module")
def default() -> DictConfig:
    return composed(Path())


def with_(config: DictConfig, *settings: str) -> DictConfig:
    return OmegaConf.merge(config, OmegaConf.from_dotlist(list(settings)))


def test_they_may_in_our_defaults_and_with_the_kl_in_the_reward(default: DictConfig) -> None:
    assert may_be_left_out(default)
    assert may_be_left_out(with_(default, "algorithm.use_kl_in_reward=true"))


@pytest.mark.parametrize("term", NEEDS_ALL_ROWS)
def test_each_other_term_of_the_loss_keeps_all_rows(term: str, default: DictConfig) -> None:
    config = with_(default, NEEDY[term])
    assert [name for name, needs in NEEDS_ALL_ROWS.items() if needs(config)] == [term]
    assert not may_be_left_out(config)


def four_rows() -> tuple[Tensor, Tensor, Tensor]:
    """Old and new log-probs, and advantages, which the last two rows lack."""
    old, new = -torch.rand(2, 4, 5, generator=torch.Generator().manual_seed(0))
    return old, new, torch.tensor([1.0, -0.5, 0.0, 0.0]).unsqueeze(1).expand(4, 5)


@pytest.mark.parametrize("name", SLOTS["loss"])
def test_our_losses_are_weighed_by_the_advantages(name: str) -> None:
    form, ids = method("loss", name), torch.tensor([[1, 1, 0, 2, 2]] * 4)
    old, new, advantages = four_rows()
    new.requires_grad_()
    losses, _ = form(old, new, advantages, ids > 0, ids)
    losses.sum().backward()
    assert new.grad is not None and new.grad[:2].any() and not new.grad[2:].any() and not losses[2:].any()
    assert torch.equal(losses[:2], form(old[:2], new[:2], advantages[:2], ids[:2] > 0, ids[:2])[0])
    assert form.weighed and may_be_left_out(composed(Path(), f"loss={name}"))


class Penalised(TurnClip):
    """A loss of one's own whose penalty has a gradient where the advantage is 0."""


def test_a_loss_that_inherits_from_one_of_ours_keeps_all_rows() -> None:
    config = composed(Path(), "loss=turn_clip")
    assert may_be_left_out(config)
    assert not may_be_left_out(with_(config, f"loss.turn_clip.target={__name__}:Penalised"))


ALL_ABOVE = tuple(f"{ACTOR}.policy_loss.clip_cov_{key}" for key in ("ratio=1.0", "lb=0.02"))  # none is drawn at random


@pytest.fixture(scope="module")
def actor(default: DictConfig) -> ActorConfig:
    loss = (f"{ACTOR}.policy_loss.kl_cov_ratio=0.5", f"{ACTOR}.policy_loss.dro_beta=0.1", *ALL_ABOVE)
    actor = omega_conf_to_dataclass(with_(default, *loss).actor_rollout_ref.actor)
    actor.global_batch_info.update({"dp_size": 1, "batch_num_tokens": 20, "global_batch_size": 4})
    return actor


def pull(mode: str, rows: list[int], actor: ActorConfig) -> Tensor:
    """What a policy loss does to the log-probs of these of the four rows."""
    old, new, advantages = four_rows()
    new = new[rows].requires_grad_()
    given: dict[str, Any] = {"old_log_prob": old[rows], "log_prob": new, "advantages": advantages[rows]}
    mask = torch.ones(len(rows), 5, dtype=torch.bool)
    loss, _ = POLICY_LOSS_REGISTRY[mode](**given, response_mask=mask, loss_agg_mode="token-mean", config=actor)
    loss.backward()
    return new.grad


@pytest.mark.parametrize("mode", sorted({*WEIGHED, *BY_PASS, "geo_mean", "kl_cov", "dro"}))
def test_a_policy_loss_is_weighed_if_rows_without_an_advantage_change_nothing(mode: str, actor: ActorConfig) -> None:
    everyone, some = pull(mode, [0, 1, 2, 3], actor), pull(mode, [0, 1], actor)
    same = torch.allclose(everyone[:2], some) and not everyone[2:].any()
    assert same == (mode in WEIGHED)
    assert everyone[:2].any()


@pytest.mark.parametrize("mode", [*BY_PASS, "kl_cov"])
def test_losses_that_compare_the_tokens_of_a_pass_leave_out_whole_passes(mode: str, actor: ActorConfig) -> None:
    assert pull(mode, [2, 3], actor).any() == (mode not in BY_PASS)
    assert may_be_left_out(composed(Path(), f"{ACTOR}.policy_loss.loss_mode={mode}")) == (
        PASSES if mode in BY_PASS else ""
    )
