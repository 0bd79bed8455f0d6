"""The training of a run: our trainers, and the calls of verl's ``trainer/main_ppo.py``.

verl makes these calls in an actor of Ray, here they are made in the process of the RL stage.
``tests/verl_plugin/test_verl_changes.py`` fails if a version of verl makes others.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pprint import pprint
from typing import Any

import ray
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import validate_config
from verl.utils.import_utils import load_class_from_fqn
from verl.utils.logging_utils import configure_verl_logging
from verl.workers.rollout import router

from turngrid.verl_plugin.ray_settings import ray_settings
from turngrid.verl_plugin.training import watchdog
from turngrid.verl_plugin.training.rollout_groups import AsyncGroups, prompts_in_queue
from turngrid.verl_plugin.training.trainer import StepTrainer


class TurngridTrainer(StepTrainer, PPOTrainerSync):
    """The trainer for ``trainer.v1.trainer_mode=sync``."""


class AsyncTrainer(StepTrainer):
    """Base of both asynchronous trainers (docs/async.md): no episode is sampled in vain."""

    groups: AsyncGroups
    kind_of_groups = AsyncGroups

    def _add_batch_to_generate(self) -> None:
        """No more prompts are dispatched than will be trained on.

        Until verl's asynchronous trainers dispatch no others.
        """
        self._add_prompts_to_generate(self.config.data.train_batch_size)

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """Dispatches no more prompts than are trained on, refills of dropped ones included.

        Until verl's asynchronous trainers dispatch no others.
        """
        steps = self.total_training_steps - self.global_steps + 1
        still_to_train = steps * self.config.data.train_batch_size - len(self.groups.trained)
        wanted = min(num_prompts, still_to_train - len(prompts_in_queue()))
        return super()._add_prompts_to_generate(wanted) if wanted > 0 else 0


class ColocateAsyncTrainer(AsyncTrainer, PPOTrainerColocateAsync):
    """The trainer for ``colocate_async``: sampling pauses while the trainer uses the devices."""


class SeparateAsyncTrainer(AsyncTrainer, PPOTrainerSeparateAsync):
    """The trainer of ``separate_async``: rollouts have separate devices."""


TRAINERS = {
    "sync": TurngridTrainer,
    "colocate_async": ColocateAsyncTrainer,
    "separate_async": SeparateAsyncTrainer,
}


def train(config: DictConfig) -> None:
    """Train with our trainer of verl's mode.

    Raises what verl raises; if verl refuses the config, before anything heavy starts.
    """
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    # Pickled by value, so that the router's process does not import verl: 5 CPU s and 300 MiB
    ray.cloudpickle.register_pickle_by_value(router)
    start_ray(config)
    configure_verl_logging()
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    pprint(OmegaConf.to_container(config))
    tq.init(config.transfer_queue)
    try:
        trainer = TRAINERS[config.trainer.v1.trainer_mode](config=config)
        with _finished(trainer):
            trainer.init()
            manager: Any = load_class_from_fqn(config.actor_rollout_ref.rollout.agent.agent_loop_manager_class)
            # closed before the queue, whose sockets it uses
            with closing(manager.create(config, trainer.get_llm_client())) as loops:
                try:
                    trainer.fit(loops)
                finally:
                    watchdog.current.enter("shutdown")
    finally:
        tq.close()
    if timeline := config.ray_kwargs.get("timeline_json_file"):
        ray.timeline(filename=timeline)


def start_ray(config: DictConfig) -> None:
    """Start Ray with verl's environment; on CPUs it runs already (``rl.start_early``)."""
    set_environment(config)
    if ray.is_initialized():
        return
    environment = get_ppo_ray_runtime_env(config)
    environment["env_vars"]["TRANSFER_QUEUE_ENABLE"] = "1"
    ray.init(**ray_settings(config, sys.executable, environment))


def set_environment(config: DictConfig) -> None:
    """Set the variables that make verl's processes deterministic, if the config asks for it."""
    rollout, reward = config.actor_rollout_ref.rollout, config.reward.reward_model
    if rollout.full_determinism or (reward.enable and reward.rollout.full_determinism):
        seed = str(rollout.seed)
        os.environ.update(VERL_FULL_DETERMINISM="1", VLLM_BATCH_INVARIANT="1", PYTHONHASHSEED=seed)


@contextmanager
def _finished(trainer: Any) -> Iterator[None]:
    """Tell the trackers at the end of the block whether it succeeded."""
    exit_code = 1
    try:
        yield
        exit_code = 0
    finally:
        if (tracking := getattr(trainer, "logger", None)) is not None:
            tracking.finish(exit_code=exit_code)
