"""verl's own check of every GPU-scale config; test_sweep_files.py has the study's numbers."""

import itertools

from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from turngrid.algorithms.registry import ALGORITHMS
from turngrid.algorithms.registry import words as algo_words
from turngrid.config.base import CONF, ROOT
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer

# without adapters, for which verl asks vLLM's version
MODELS = sorted(file.stem for file in (CONF / "model").glob("qwen*b.yaml"))

SIZES = "1x2 2x8"  # nodes x GPUs of each
NCCL = "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl"
ASYNC = (
    "trainer.v1.trainer_mode=colocate_async",
    f"trainer.v1.trainer_mode=separate_async rollout=vllm actor_rollout_ref.rollout.nnodes=1 {NCCL}",
)
OTHERS = {"slurm_gpu1": "1x1", "slurm_gpu8": "1x8", "slurm_multinode": "2x8"}  # differ in where they run only


def test_verl_and_we_accept_every_model_every_algorithm_and_number_of_gpus(composed: Composer) -> None:
    """Each model and algorithm once with 2 and 16 GPUs, and every other ``algo=`` word."""
    pairs = list(zip(ALGORITHMS, itertools.cycle(MODELS)))
    asked = [f"model={model} algo={algo} cluster=gpu8|{SIZES}" for algo, model in pairs]
    asked += [f"model={MODELS[0]} cluster=gpu1|1x1"]
    asked += [f"model={MODELS[0]} cluster={cluster}|{sizes}" for cluster, sizes in OTHERS.items()]
    asked += [f"model=tiny {words(algo)} cluster=cpu|1x1" for algo in ("ppo", *{*algo_words()} - {*ALGORITHMS})]
    asked += [f"model={MODELS[0]} cluster=gpu8 {mode}|1x8 2x8" for mode in ASYNC]
    asked += [
        f"model=tiny cluster=cpu trainer.v1.trainer_mode={mode}|1x1" for mode in ("colocate_async", "separate_async")
    ]
    for line in asked:
        overrides, sizes = line.split("|")
        config = composed(overrides.split())
        config.model.path = str(ROOT / "assets" / "tiny")  # verl reads the model's own config, and these lie elsewhere
        for size in sizes.split():
            config.trainer.nnodes, config.trainer.n_gpus_per_node = map(int, size.split("x"))
            check(config)
            reference, critic = need_reference_policy(config), need_critic(config)
            validate_config(config, use_reference_policy=reference, use_critic=critic)


TWO_PLAYER = {name: " env=two_player" for name in ("spiral", "marshal")}
TWO_PLAYER |= {name: " env=two_player rollout_form=self_play" for name in ("rae", "role_mean")}


def words(algo: str) -> str:
    needed = {"distill": " algo.teacher=assets/tiny", "igpo": " env=search"} | TWO_PLAYER
    return f"algo={algo}{needed.get(algo, '')}"
