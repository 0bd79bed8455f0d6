"""Where verl 0.9.1's own estimators are right for multi-turn rows, and where not: the reasons
behind the registry.

These run verl's functions, so that a new version of verl which changes its mind is noticed here.
"""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from torch import Tensor
from verl import DataProto
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.ray_trainer import apply_kl_penalty
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from turngrid.algorithms.group import grpo, rloo
from turngrid.algorithms.registry import ALGORITHMS
from turngrid.config.values.verl_limits import ESTIMATORS
from turngrid.verl_plugin.training import estimators

CONFIG = AlgoConfig(gamma=0.9, lam=0.8, norm_adv_by_std_in_grpo=True)
Estimator = Callable[..., tuple[Tensor, Tensor]]
PROMPTS = ["a", "a", "a", "b", "b", "b"]


def rows(dead: int = 0, seed: int = 0) -> DataProto:
    """Six multi-turn rows of two prompts, then as many dummy rows as verl's padding would add, in
    its form."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.tensor([[1, 1, 0, 0, 1, 0, 1, 1, 0], [1, 0, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 1, 1, 1, 0, 0]] * 2)
    tensors = {n: torch.randn(mask.shape, generator=generator) for n in ("values", "old_log_probs", "ref_log_prob")}
    rewards = torch.randn(mask.shape, generator=generator) * mask
    tensors |= {"response_mask": mask, "token_level_scores": rewards, "token_level_rewards": rewards}
    tensors = {name: torch.cat([rows, dummies(name, rows, dead)]) for name, rows in tensors.items()}
    uids = np.array(PROMPTS + ["pad0"] * dead, dtype=object)
    return DataProto(batch=TensorDict(tensors, batch_size=len(uids)), non_tensor_batch={"uid": uids})


def dummies(name: str, like: Tensor, count: int) -> Tensor:
    """verl zeroes a dummy row's mask and rewards; the models' outputs on it are arbitrary."""
    filled = 0 if name in ("response_mask", "token_level_scores", "token_level_rewards") else 3
    return like.new_full((count, like.shape[1]), filled)


def through_verl(data: DataProto, estimator: str, config: AlgoConfig = CONFIG) -> tuple[Tensor, Tensor]:
    """The very call that verl's V1 trainer makes."""
    keys = [f"{uid}_{i}_0" for i, uid in enumerate(data.non_tensor_batch["uid"])]
    data = compute_advantage_for_multi_trajectories(data, keys, estimator, config.gamma, config.lam, config=config)
    mask = data.batch["response_mask"]
    return data.batch["advantages"] * mask, data.batch["returns"] * mask


@pytest.mark.parametrize("dead", [0, 3])
@pytest.mark.parametrize(("name", "ours"), [("grpo", grpo), ("rloo", rloo)])
def test_verl_is_right_on_healthy_rows(name: str, ours: Estimator, dead: int) -> None:
    data = rows()
    expected = ours(data.batch["token_level_rewards"], data.batch["response_mask"], PROMPTS)
    for registered in (name, ALGORITHMS[name].estimator):
        for got, wanted in zip(through_verl(rows(dead), registered), expected, strict=True):
            torch.testing.assert_close(got[: len(PROMPTS)], wanted, atol=2e-6, rtol=1e-5)
            assert not got[len(PROMPTS) :].any()


@pytest.mark.parametrize("estimator", ["gae", "reinforce_plus_plus", "turngrid_lite_ppo"])
def test_dead_rows_change_nothing(estimator: str) -> None:
    for got, wanted in zip(through_verl(rows(3), estimator), through_verl(rows(), estimator), strict=True):
        torch.testing.assert_close(got[: len(PROMPTS)], wanted, atol=2e-6, rtol=1e-5)
        assert not got[len(PROMPTS) :].any()


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("score", [0.7, 0.1, 1 / 3])
def test_a_batch_that_earned_all_the_same_teaches_nothing(name: str, score: float) -> None:
    """verl whitens in float32, where each of these became up to 0.0006, of one sign for all; Adam
    makes full steps of that."""
    data = rows(dead=2)
    mask = data.batch["response_mask"]
    data.batch["values"].zero_()
    last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
    data.batch["token_level_rewards"] = torch.zeros(mask.shape).scatter(1, last[:, None], score) * mask
    same = OmegaConf.create({"gamma": 1.0, "lam": 1.0})
    keys = [f"{uid}_{i}_0" for i, uid in enumerate(data.non_tensor_batch["uid"])]
    data = compute_advantage_for_multi_trajectories(data, keys, ALGORITHMS[name].estimator, 1.0, 1.0, config=same)
    assert not data.batch["advantages"].any()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_that_may_be_named_runs_on_what_verls_trainer_has(estimator: str) -> None:
    data = rows(dead=2)
    if estimator != "gae":  # no critic, no values
        data.batch.pop("values")
    for result in through_verl(data, estimator):
        assert result.isfinite().all()
        assert result.any()


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_verl_gives_a_group_of_one_its_raw_score_and_ours_0(name: str) -> None:
    data = rows()
    data.non_tensor_batch["uid"][5] = "alone"
    score = data.batch["token_level_rewards"][5].sum()
    torch.testing.assert_close(through_verl(data, name)[0][5], score * data.batch["response_mask"][5])
    assert not through_verl(data, ALGORITHMS[name].estimator)[0][5].any()


@pytest.mark.parametrize("name", ["grpo", "rloo"])
def test_verl_counts_an_episode_without_an_action_and_ours_does_not(name: str) -> None:
    data = rows(dead=1)
    data.non_tensor_batch["uid"][-1] = "a"
    sound = rows().batch
    ours = {"grpo": grpo, "rloo": rloo}[name]
    expected, _ = ours(sound["token_level_rewards"], sound["response_mask"], PROMPTS)
    assert not torch.allclose(through_verl(data, name)[0][:3], expected[:3])
    torch.testing.assert_close(through_verl(data, ALGORITHMS[name].estimator)[0][:6], expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["kl", "k3"])
def test_kl_in_the_reward_stays_on_action_tokens(kind: str) -> None:
    """verl masks it rightly, and ours takes the same from each token."""
    verls, wanted = apply_kl_penalty(rows(dead=2), controller(), kind)
    mine, metrics = estimators.apply_kl_penalty(rows(dead=2), controller(), kind)
    penalty = verls.batch["token_level_scores"] - verls.batch["token_level_rewards"]
    assert penalty[verls.batch["response_mask"] == 1].all()
    assert not penalty[verls.batch["response_mask"] == 0].any()
    assert torch.equal(mine.batch["token_level_rewards"], verls.batch["token_level_rewards"])
    assert metrics["actor/reward_kl_penalty_coeff"] == wanted["actor/reward_kl_penalty_coeff"] == 0.1


def test_dummy_rows_do_not_dilute_our_kl_metric() -> None:
    """As they do verl's (test_verl_bugs.py); a batch without any action has no KL."""
    expected = apply_kl_penalty(rows(), controller())[1]["actor/reward_kl_penalty"]
    for dead in (0, 6):
        ours = estimators.apply_kl_penalty(rows(dead), controller())[1]["actor/reward_kl_penalty"]
        assert ours == pytest.approx(expected, rel=1e-5)
    (none := rows()).batch["response_mask"] *= 0
    assert estimators.apply_kl_penalty(none, controller())[1]["actor/reward_kl_penalty"] == 0.0


def controller() -> SimpleNamespace:
    return SimpleNamespace(value=0.1, update=lambda current_kl, n_steps: None)


def test_settings_reach_our_estimators_from_verls_algorithm_node() -> None:
    """The V1 trainer hands over its OmegaConf node; keys of other estimators are left alone."""
    data, config = rows(), OmegaConf.create({"norm_adv_by_std_in_grpo": False, "gamma": 0.5, "lam": 1.0})
    estimator = core_algos.get_adv_estimator_fn("turngrid_grpo")
    rewards, mask, uids = data.batch["token_level_rewards"], data.batch["response_mask"], data.non_tensor_batch["uid"]
    got, _ = estimator(token_level_rewards=rewards, response_mask=mask, config=config, index=uids)
    torch.testing.assert_close(got, grpo(rewards, mask, uids, norm_adv_by_std_in_grpo=False)[0])


def test_the_registry_names_what_verl_can_find() -> None:
    estimators.register_all()  # a second time
    for algorithm in ALGORITHMS.values():
        assert callable(core_algos.get_adv_estimator_fn(algorithm.estimator))
        assert (algorithm.function is None) == (not algorithm.estimator.startswith("turngrid_"))
