"""verl's asynchronous trainers with our parts of a step (docs/async.md).

Episodes are sampled while others are trained on. So a step's groups are those that verl's replay
buffer picked for it, whenever their prompts were dispatched (``rollout_groups``). No more prompts
are dispatched than the remaining steps will train on, so that no episode is sampled in vain.
"""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync

from turngrid.verl_plugin.rollout.llm_client import client_class
from turngrid.verl_plugin.training.rollout_groups import AsyncGroups, prompts_in_queue
from turngrid.verl_plugin.training.trainer import StepTrainer


class AsyncTrainer(StepTrainer):
    """Base of both asynchronous trainers: it limits how many prompts are dispatched."""

    groups: AsyncGroups

    def make_groups(self) -> AsyncGroups:
        return AsyncGroups(self.config, self.now)

    def get_llm_client(self) -> Any:
        """Our own server needs one request id for all turns of an episode."""
        servers = getattr(self, "standalone_server_manager", None) or self.llm_server_manager
        return servers.get_client(client_cls=client_class(self.config.actor_rollout_ref.rollout.name))

    def _add_batch_to_generate(self) -> None:
        """No more prompts are dispatched than will be trained on."""
        self._add_prompts_to_generate(self.config.data.train_batch_size)

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """No more prompts are dispatched than will be trained on, refills of dropped ones
        included.
        """
        steps = self.total_training_steps - self.global_steps + 1
        still_to_train = steps * self.config.data.train_batch_size - len(self.groups.trained)
        wanted = min(num_prompts, still_to_train - len(prompts_in_queue()))
        return super()._add_prompts_to_generate(wanted) if wanted > 0 else 0


class ColocateAsyncTrainer(AsyncTrainer, PPOTrainerColocateAsync):
    """The trainer for ``colocate_async``: sampling pauses while the trainer uses the devices."""


class SeparateAsyncTrainer(AsyncTrainer, PPOTrainerSeparateAsync):
    """The trainer for ``trainer.v1.trainer_mode=separate_async``: rollouts have separate
    devices.
    """
