"""verl's own check of every GPU-scale config, and the study's numbers in it."""

from __future__ import annotations

import itertools

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from turngrid.algorithms.chosen import algorithm
from turngrid.algorithms.registry import ALGORITHMS
from turngrid.algorithms.registry import words as algo_words
from turngrid.config.base import CONF, ROOT
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer

MODELS = sorted(file.stem for file in (CONF / "model").glob("qwen*.yaml"))

SIZES = "1x2 1x4 1x8 2x8"  # nodes x GPUs of each
NCCL = "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl"
ASYNC = (
    "trainer.v1.trainer_mode=colocate_async",
    f"trainer.v1.trainer_mode=separate_async rollout=vllm actor_rollout_ref.rollout.nnodes=1 {NCCL}",
)
OTHERS = {"slurm_gpu1": "1x1", "slurm_gpu8": "1x8", "slurm_multinode": "2x8"}  # differ in where they run only


def test_verl_and_we_accept_every_model_every_algorithm_and_number_of_gpus(composed: Composer) -> None:
    """Each model and algorithm once with 1, 2, 4, 8 and 16 GPUs, and every ``algo=`` word."""
    pairs = list(zip(ALGORITHMS, itertools.cycle(MODELS)))
    asked = [f"model={model} algo={algo} cluster=gpu8|{SIZES}" for algo, model in pairs]
    asked += [f"model={MODELS[0]} cluster=gpu1|1x1"]
    asked += [f"model={MODELS[0]} cluster={cluster}|{sizes}" for cluster, sizes in OTHERS.items()]
    asked += [f"model=tiny {words(algo)} cluster=cpu|1x1" for algo in algo_words()]
    asked += [f"model={MODELS[0]} cluster=gpu8 {mode}|1x8 2x8" for mode in ASYNC]
    asked += [
        f"model=tiny cluster=cpu trainer.v1.trainer_mode={mode}|1x1" for mode in ("colocate_async", "separate_async")
    ]
    accept(composed, asked)


@pytest.mark.slow
def test_verl_and_we_accept_every_pair_of_model_and_algorithm(composed: Composer) -> None:
    pairs = list(itertools.product(MODELS, ALGORITHMS))
    asked = [f"model={model} algo={algo} cluster=gpu8|{SIZES}" for model, algo in pairs]
    asked += [f"model={model} algo={algo} cluster=gpu1|1x1" for model, algo in pairs]
    others = {*algo_words()} - {*ALGORITHMS, "arpo", "aepo"}  # not with vLLM
    asked += [f"model={MODELS[0]} {words(algo)} cluster=gpu8|1x8" for algo in others]
    asked += [f"model={MODELS[0]} algo={algo} cluster=gpu8 {mode}|1x8 2x8" for algo in ALGORITHMS for mode in ASYNC]
    accept(composed, asked)


def accept(composed: Composer, asked: list[str]) -> None:
    for line in asked:
        overrides, sizes = line.split("|")
        config = composed(overrides.split())
        config.model.path = str(ROOT / "assets" / "tiny")  # verl reads the model's own config, and these lie elsewhere
        for size in sizes.split():
            config.trainer.nnodes, config.trainer.n_gpus_per_node = map(int, size.split("x"))
            check(config)
            reference, critic = need_reference_policy(config), need_critic(config)
            validate_config(config, use_reference_policy=reference, use_critic=critic)


def words(algo: str) -> str:
    return f"algo={algo} algo.teacher=assets/tiny" if algo == "distill" else f"algo={algo}"


# arXiv 2510.01132: actor lr, prompts, samples, KL in the reward, KL in the loss
PAPER = {
    "ppo": (5e-7, 256, 1, True, False),
    "rloo": (1e-6, 32, 8, True, False),
    "grpo": (1e-6, 32, 8, False, True),
    "reinforce_plus_plus": (1e-6, 256, 1, True, False),
}


@pytest.mark.parametrize("algo", PAPER)
def test_the_studys_hyper_parameters(composed: Composer, algo: str) -> None:
    config = composed([f"algo={algo}", "model=qwen2.5_1.5b", "cluster=gpu8"])
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    kl = (config.algorithm.use_kl_in_reward, actor.use_kl_loss)
    assert (actor.optim.lr, config.data.train_batch_size, rollout.n, *kl) == PAPER[algo]
    assert config.algorithm.kl_ctrl.kl_coef == actor.kl_loss_coef == 0.001
    assert (actor.clip_ratio, actor.clip_ratio_low, actor.clip_ratio_high, actor.clip_ratio_c) == (0.2, 0.2, 0.2, 3.0)
    assert (config.algorithm.gamma, config.algorithm.lam) == (1.0, 1.0)
    assert (actor.loss_agg_mode, actor.ppo_epochs, actor.entropy_coeff) == ("token-mean", 1, 0)
    assert actor.ppo_mini_batch_size == config.data.train_batch_size
    assert (rollout.temperature, config.eval.temperatures) == (0.7, [0.4])
    assert (rollout.name, config.algorithm.adv_estimator) == ("vllm", algorithm(algo).estimator)
    assert (config.model.sft.lr, config.model.sft.epochs) == (1e-6, 1)
    if algo == "ppo":
        assert (config.critic.optim.lr, config.critic.cliprange_value) == (5e-6, 0.5)


@pytest.mark.parametrize(("task", "turns", "tokens"), [("w2-o3-q4", 12, 3072), ("w4-o6-q8", 24, 4096)])
def test_lengths_follow_the_turns(composed: Composer, task: str, turns: int, tokens: int) -> None:
    config = composed([f"env.task={task}", "model=qwen3_8b"])
    assert config.env.max_turns == turns
    assert (config.data.max_prompt_length, config.data.max_response_length) == (tokens, tokens)


def test_the_default_is_the_laptops(composed: Composer) -> None:
    config = composed([])
    episodes = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    assert (config.scale.name, config.cluster.name, config.model.name) == ("laptop", "cpu", "tiny")
    assert (episodes, config.budget.rl_steps, config.eval.games) == (128, 25, 200)
    assert (config.trainer.use_v1, config.trainer.v1.trainer_mode, config.trainer.save_freq) == (True, "sync", 5)
    assert OmegaConf.missing_keys(config.actor_rollout_ref) == set()
