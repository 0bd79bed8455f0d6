"""verl's PPO task with our trainers, without a Ray actor, which saves about five seconds."""

from types import SimpleNamespace
from typing import Any

import ray
from omegaconf import DictConfig
from verl.trainer import main_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.utils.config import validate_config
from verl.workers.rollout import router

from turngrid.verl_plugin.rollout.samplers import client_class
from turngrid.verl_plugin.training.rollout_groups import AsyncGroups, prompts_in_queue
from turngrid.verl_plugin.training.trainer import StepTrainer, TurngridTrainer


class AsyncTrainer(StepTrainer):
    """Base of both asynchronous trainers (docs/async.md): no episode is sampled in vain."""

    groups: AsyncGroups
    kind_of_groups = AsyncGroups

    def get_llm_client(self) -> Any:
        """Return the client; that of our server has one request id for all turns of an episode."""
        servers = getattr(self, "standalone_server_manager", None) or self.llm_server_manager
        return servers.get_client(client_cls=client_class(self.config.actor_rollout_ref.rollout.name))

    def _add_batch_to_generate(self) -> None:
        """No more prompts are dispatched than will be trained on."""
        self._add_prompts_to_generate(self.config.data.train_batch_size)

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """Dispatches no more prompts than are trained on, refills of dropped ones included."""
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


def _run_here(config: DictConfig) -> ray.ObjectRef:
    runner: Any = main_ppo.TaskRunnerV1
    runner.__ray_metadata__.modified_class().run(config)
    return ray.put(None)


ACTOR = SimpleNamespace(run=SimpleNamespace(remote=_run_here))  # in the place of a Ray actor


def train(config: DictConfig) -> None:
    """Train with our trainers under verl's names of modes.

    Raises what verl raises; if verl refuses the config, before anything heavy starts.

    Until verl lets a config name the class.
    """
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    TRAINER_REGISTRY.update(TRAINERS)
    # Pickled by value, so that the router's process does not import verl: 5 CPU s and 300 MiB
    ray.cloudpickle.register_pickle_by_value(router)
    main_ppo.run_ppo(config, task_runner_class=SimpleNamespace(remote=lambda: ACTOR))
