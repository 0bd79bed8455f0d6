"""The last step of composition: fill in each ``null`` whose value follows from other keys."""

from omegaconf import DictConfig, OmegaConf

from turngrid.config import asynchronous, curriculum_settings, experience, lora, method_settings, precision, prompts
from turngrid.config.errors import ConfigError
from turngrid.envs.registry import ENVIRONMENTS, environment_class, spec
from turngrid.envs.types import TaskError
from turngrid.tasks.budget import steps_of_epochs
from turngrid.tasks.mixture import mixture_name, task_weights
from turngrid.tasks.run import Run

# arXiv 2510.01132: prompt and response of 3072 tokens for tasks of up to 12 turns, else 4096
SHORT_TURNS, SHORT_TOKENS, LONG_TOKENS = 12, 3072, 4096
# Most rows of a micro-batch, if verl does not fill it by tokens and model.rows_per_pass is null
MICRO_BATCH = 4
MICRO_BATCH_KEYS = (
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu",
    "critic.ppo_micro_batch_size_per_gpu",
)
RESOLVED = (  # keys whose defaults follow from others; what is filled in later leaves them as they are
    *lora.LEARNING_RATES,
    "env.max_action_tokens",
    "data.max_response_length",
    "trainer.v1.sampler.max_off_policy_threshold",
    "trainer.v1.sampler.max_off_policy_strategy",
    "trainer.v1.separate_async.parameter_sync_step",
)


def finalise(config: DictConfig) -> DictConfig:
    """Fill in, in place, each null key whose default follows from others; given values are kept.

    Raises:
        ConfigError: the environment or its task does not exist, or the mixture is invalid.
    """
    for key in RESOLVED:
        OmegaConf.update(config, key, OmegaConf.select(config, key))
    precision.fill_in(config)
    method_settings.methods_of(config)  # a rollout form that refuses its settings has no cost a step
    prompts.fill_in(config)
    experience.fill_in(config)
    _finalise_tasks(config)
    for key in ("max_prompt_length", "max_response_length"):
        if config.data[key] is None:
            config.data[key] = SHORT_TOKENS if config.env.max_turns <= SHORT_TURNS else LONG_TOKENS
    if config.budget.rl_steps is None and config.budget.count == "games":
        config.budget.rl_steps = steps_of_epochs(config.budget, int(config.data.train_batch_size))
    if not config.actor_rollout_ref.actor.use_dynamic_bsz:
        _fill_micro_batches(config)
    curriculum_settings.fill_in(config)
    asynchronous.fill_in(config)
    lora.fill_in(config)
    method_settings.fill_in(config)
    return config


def _fill_micro_batches(config: DictConfig) -> None:
    """Fill in the null keys of micro-batches; verl needs a divisor of the mini-batch."""
    rows, most = rows_per_device(config), config.model.rows_per_pass or MICRO_BATCH
    size = max((size for size in range(1, min(rows, most) + 1) if rows % size == 0), default=1)
    for key in MICRO_BATCH_KEYS:
        if OmegaConf.select(config, key) is None:
            OmegaConf.update(config, key, size)


def _finalise_tasks(config: DictConfig) -> None:
    """Write a mixture as task -> weight, its name as ``env.task``, and its longest task's turns."""
    env = config.env
    try:
        weights = task_weights(env)
        if env.tasks is not None:
            env.tasks, env.task = weights, mixture_name(weights)
        if env.max_turns is None:
            env.max_turns = max(map(Run(config).environment.max_turns, weights))
    except TaskError as error:
        raise ConfigError(explained(error, env)) from error


def explained(error: TaskError, env: DictConfig) -> str:
    """Return the message with the key to blame, or with the task's environment."""
    own, key = environment_class(spec(env.name)).examples, f"env.task={env.task}" if env.tasks is None else "env.tasks"
    for task in map(str, env.tasks if OmegaConf.is_config(env.tasks) else [env.task]):
        others = (name for name in ENVIRONMENTS if name != env.name and task not in own)
        if owner := next((name for name in others if task in (name, *environment_class(spec(name)).examples)), None):
            return f"{key}: {task} is no task of env={env.name}; use env={owner}"
    return str(error) if str(error).startswith("env.") else f"{key}: {error}"


def rows_per_device(config: DictConfig) -> int:
    devices = config.trainer.n_gpus_per_node * config.trainer.nnodes
    return config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n // devices
