"""Choosing an asynchronous trainer: what follows, what stays as it was, and what is refused."""

import pytest
from omegaconf import OmegaConf

from turngrid.config.base import verl_tree
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.finalise import finalise
from turngrid.records.run_folder import identity

COLOCATE = "trainer.v1.trainer_mode=colocate_async"
SEPARATE = "trainer.v1.trainer_mode=separate_async"
THRESHOLD = "trainer.v1.sampler.max_off_policy_threshold"
KEYS = (
    "algorithm.rollout_correction.rollout_is",
    "trainer.v1.sampler.max_off_policy_threshold",
    "trainer.v1.sampler.max_off_policy_strategy",
    "trainer.v1.separate_async.parameter_sync_step",
)


def test_a_synchronous_run_has_verls_own_values(composed: Composer) -> None:
    config = composed([])
    assert all(OmegaConf.select(config, key) == OmegaConf.select(verl_tree(), key) for key in KEYS)
    assert config.algorithm.rollout_correction.bypass_mode is True
    assert config.actor_rollout_ref.hybrid_engine is True and config.ray_kwargs.ray_init.num_gpus == 1


@pytest.mark.parametrize("mode", [COLOCATE, SEPARATE])
def test_an_asynchronous_one_is_bounded_and_corrected(composed: Composer, mode: str) -> None:
    config = composed([mode])
    assert check(config) == []
    sampler, correction = config.trainer.v1.sampler, config.algorithm.rollout_correction
    assert (sampler.max_off_policy_threshold, sampler.max_off_policy_strategy) == (3, "wait")
    assert (correction.rollout_is, correction.rollout_is_threshold, correction.bypass_mode) == ("token", 2.0, False)
    assert identity(config) != identity(composed([])), "it learns something else"


def test_what_was_set_stays(composed: Composer) -> None:
    strategy = "trainer.v1.sampler.max_off_policy_strategy=drop"
    config = composed([COLOCATE, f"{THRESHOLD}=8", strategy, "algorithm.rollout_correction.rollout_is=null"])
    assert config.trainer.v1.sampler.max_off_policy_threshold == 8
    assert config.trainer.v1.sampler.max_off_policy_strategy == "drop"
    assert config.algorithm.rollout_correction.bypass_mode is True, "no weights: the ratio to the sampler is clipped"
    again = finalise(config.copy())
    assert OmegaConf.to_container(again, resolve=True) == OmegaConf.to_container(config, resolve=True)


def test_rollouts_beside_the_trainer_on_cpus(composed: Composer) -> None:
    config = composed([SEPARATE, "trainer.n_gpus_per_node=2"])
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.nnodes, rollout.n_gpus_per_node, config.ray_kwargs.ray_init.num_gpus) == (1, 1, 3)
    assert rollout.checkpoint_engine.backend == "turngrid_ray"
    updates = config.data.train_batch_size // config.actor_rollout_ref.actor.ppo_mini_batch_size
    assert config.trainer.v1.separate_async.parameter_sync_step == updates == 4
