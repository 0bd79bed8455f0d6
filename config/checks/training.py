"""Checks of the node ``algo``, and of verl's batches and trainer."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.chosen import algorithm
from turngrid.config import asynchronous, base
from turngrid.config.finalise import MICRO_BATCH_KEYS, rows_per_device

PASS_KEYS = (  # tokens of a forward pass, if verl fills it by tokens (use_dynamic_bsz)
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    "critic.ppo_infer_max_token_len_per_gpu",
)

TURN_REWARD = "reward= says what a turn earns, and turn_reward.name=module:Name takes a class of yours"
NOT_READ = {  # keys of verl that the pipeline sets itself -> what to use instead
    "custom_reward_function.path": TURN_REWARD,
    "reward.custom_reward_function.path": TURN_REWARD,
    "trainer.total_epochs": "budget.rl_steps says how many steps RL has",
    "trainer.total_training_steps": "budget.rl_steps says how many steps RL has",
    "trainer.resume_from_path": "extend=runs/NAME goes on from the last checkpoint of a run",
    "data.train_files": "env= and env.task= say which games are trained on",
    "data.val_files": "env= and env.task= say which games are played",
}


def set_in_vain(config: DictConfig) -> str | None:
    given = [key for key in NOT_READ if OmegaConf.select(config, key) != OmegaConf.select(base.verl_tree(), key)]
    return f"{given[0]} changes nothing here: {NOT_READ[given[0]]}" if given else None


def no_critic(config: DictConfig) -> str | None:
    needs = algorithm(config.algo.name).needs_critic or config.algorithm.adv_estimator == "gae"
    if not needs or config.critic.enable is not False:
        return None
    return f"algo={config.algo.name} learns from a critic: leave critic.enable unset, or choose algo=grpo"


def group_of_one(config: DictConfig) -> str | None:
    samples = config.actor_rollout_ref.rollout.n
    if samples > 1 or not algorithm(config.algo.name).needs_group:
        return None
    return (
        f"algo={config.algo.name} compares the samples of a prompt and actor_rollout_ref.rollout.n={samples} leaves "
        "nothing to compare: set it to 2 or more, or choose algo=ppo or algo=reinforce_plus_plus"
    )


def mini_batch(config: DictConfig) -> str | None:
    batch, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    if batch % mini == 0:
        return None
    return (
        f"data.train_batch_size={batch} is no multiple of actor_rollout_ref.actor.ppo_mini_batch_size={mini} (prompts)"
    )


def over_devices(key: str, config: DictConfig) -> str | None:
    devices, samples = config.trainer.n_gpus_per_node * config.trainer.nnodes, config.actor_rollout_ref.rollout.n
    prompts = OmegaConf.select(config, key)
    if prompts * samples % devices == 0:
        return None
    return (
        f"{key}={prompts} x actor_rollout_ref.rollout.n={samples} does not divide over the {devices} devices of "
        "trainer.nnodes x trainer.n_gpus_per_node"
    )


def micro_batch(config: DictConfig) -> str | None:
    if config.actor_rollout_ref.actor.use_dynamic_bsz:
        return None
    rows = rows_per_device(config)
    for key in MICRO_BATCH_KEYS:
        if rows % (size := OmegaConf.select(config, key)):
            return f"{key}={size} does not divide a device's mini-batch of {rows} episodes"
    return None


def row_over_pass(config: DictConfig) -> str | None:
    """Refuse a row longer than a forward pass; verl would fail an assertion in the middle of the
    run.
    """
    actor = config.actor_rollout_ref.actor
    if not actor.use_dynamic_bsz:
        return None
    row = config.data.max_prompt_length + config.data.max_response_length
    for key in PASS_KEYS:
        if (tokens := OmegaConf.select(config, key)) is not None and tokens < row:
            return (
                f"{key}={tokens} cannot hold one row of data.max_prompt_length + data.max_response_length = {row} "
                f"tokens: set it to {row} or more, or the lengths to less"
            )
    return None


def tensor_parallel(config: DictConfig) -> str | None:
    devices, size = config.trainer.n_gpus_per_node, config.actor_rollout_ref.rollout.tensor_model_parallel_size
    if devices % size == 0:
        return None
    return (
        f"actor_rollout_ref.rollout.tensor_model_parallel_size={size} does not divide trainer.n_gpus_per_node={devices}"
    )


def other_trainer(config: DictConfig) -> str | None:
    if config.trainer.use_v1 and asynchronous.mode(config) in asynchronous.MODES:
        return None
    return (
        "only verl's V1 trainer keeps turn rewards: leave trainer.use_v1=true, "
        f"and choose trainer.v1.trainer_mode from: {', '.join(asynchronous.MODES)}"
    )


def no_model_saved(config: DictConfig) -> str | None:
    contents = list(config.actor_rollout_ref.actor.checkpoint.save_contents)
    if "hf_model" in contents:
        return None
    return f"actor_rollout_ref.actor.checkpoint.save_contents={contents} lacks hf_model, which evaluation plays"
