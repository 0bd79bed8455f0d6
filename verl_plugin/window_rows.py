"""Training on the rows of windows: a step is as many updates as it would be with one row an episode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import lcm
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, open_dict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Base
else:
    Base = object


class WindowRows(Base):
    """Mixed into the trainer: the number of rows differs from step to step, that of updates does not."""

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Rows are padded to a multiple of this: each update and each pass on each device has as many as the others."""
        return lcm(dp_size * self._rows_of_a_pass(), self._updates * self.config.actor_rollout_ref.rollout.n)

    @property
    def _updates(self) -> int:
        """Of a step."""
        return self.config.data.train_batch_size // self.config.actor_rollout_ref.actor.ppo_mini_batch_size

    def _rows_of_a_pass(self) -> int:
        actor = self.config.actor_rollout_ref
        if actor.actor.use_dynamic_bsz:
            return 1
        sizes = (actor.actor.ppo_micro_batch_size_per_gpu, actor.ref.log_prob_micro_batch_size_per_gpu)
        critic = self.config.critic.ppo_micro_batch_size_per_gpu
        return lcm(*(int(size) for size in (*sizes, critic) if size))

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self._dealt(self.config.actor_rollout_ref.actor, len(batch)):
            return super()._update_actor(batch, metrics)

    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self._dealt(self.config.critic, len(batch)):
            return super()._update_critic(batch, metrics)

    @contextmanager
    def _dealt(self, node: DictConfig, rows: int) -> Iterator[None]:
        """verl takes a mini-batch to be ``ppo_mini_batch_size`` x n rows."""
        usual = node.ppo_mini_batch_size
        with open_dict(node):
            node.ppo_mini_batch_size = rows // (self._updates * self.config.actor_rollout_ref.rollout.n)
            try:
                yield
            finally:
                node.ppo_mini_batch_size = usual


def install(config: DictConfig) -> None:
    """Give the trainer what windows need, where the config has some."""
    if config.env.get("window_turns") is not None:
        mode = config.trainer.v1.trainer_mode
        TRAINER_REGISTRY[mode] = type("WindowTrainer", (WindowRows, TRAINER_REGISTRY[mode]), {})
