"""Training on the rows of windows: a step is as many updates as it would be with one row an episode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from math import lcm
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, open_dict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

from algorithms.registry import FORM
from rollouts.prompt_forms.registry import prompt_form
from rollouts.window import window_of
from verl_plugin.training.losses import EPISODES

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Base
else:
    Base = object


class WindowRows(Base):
    """Mixed into the trainer: the number of rows differs from step to step, that of updates does not."""

    def _get_required_batch_multiple(self, dp_size: int) -> int:
        """Rows are padded to a multiple of this: every update has as many as the others, every pass on every device too, and
        verl counts an update's rows in multiples of n."""
        return self._parts() * lcm(dp_size * self._rows_of_a_pass(), self.config.actor_rollout_ref.rollout.n)

    def _parts(self) -> int:
        """Into which a batch can be cut for the updates of the policy and for those of the critic."""
        return lcm(*(self._updates(node) for node in (self.config.actor_rollout_ref.actor, self.config.critic)))

    def _updates(self, node: DictConfig) -> int:
        """Of one batch from the buffer."""
        return max(1, self._prompts() // node.ppo_mini_batch_size)

    def _prompts(self) -> int:
        """Of one batch from the buffer: all of a step's or, with ``separate_async``, one of several shares of them."""
        return int(self.config.data.train_batch_size) // self.parameter_sync_step

    def _rows_of_a_pass(self) -> int:
        actor = self.config.actor_rollout_ref
        if actor.actor.use_dynamic_bsz:
            return 1
        sizes = (
            actor.actor.ppo_micro_batch_size_per_gpu,
            actor.ref.log_prob_micro_batch_size_per_gpu,
            actor.rollout.log_prob_micro_batch_size_per_gpu,
            self.config.critic.ppo_micro_batch_size_per_gpu,
        )
        return lcm(*(int(size) for size in sizes if size))

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        """verl pads at the end, where an update could get padding and nothing else."""
        batch = super()._balance_batch(batch, metrics, **kwargs)
        padding = [bool(tag.get("is_padding", False)) for tag in batch.tags]
        share = len(padding) // (max(self.actor_rollout_wg._dispatch_info["actor"]) + 1)  # rows of a device
        starts = range(0, len(padding), share)
        batch.reorder([at + row for at in starts for row in spread(padding[at : at + share], self._parts())])
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self._dealt(self.config.actor_rollout_ref.actor, batch):
            return super()._update_actor(batch, metrics)

    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with self._dealt(self.config.critic, batch):
            return super()._update_critic(batch, metrics)

    @contextmanager
    def _dealt(self, node: DictConfig, batch: KVBatchMeta) -> Iterator[None]:
        """verl takes a mini-batch to be ``ppo_mini_batch_size`` x n rows."""
        usual, samples, updates = node.ppo_mini_batch_size, self.config.actor_rollout_ref.rollout.n, self._updates(node)
        batch.extra_info[EPISODES] = self._prompts() * samples // updates
        with open_dict(node):
            node.ppo_mini_batch_size = len(batch) // (updates * samples)
            try:
                yield
            finally:
                node.ppo_mini_batch_size = usual


def spread(padding: Sequence[bool], parts: int) -> list[int]:
    """An order of the rows in which each of ``parts`` equal parts has its share of padding; the others stay in order."""
    rows = [row for row, pads in enumerate(padding) if not pads]
    filling = (row for row, pads in enumerate(padding) if pads)
    bounds = [len(rows) * part // parts for part in range(parts + 1)]
    size = len(padding) // parts
    return [row for a, b in pairwise(bounds) for row in [*rows[a:b], *islice(filling, size - (b - a))]]


def install(config: DictConfig) -> None:
    """Give the trainer what windows need, where the config has some."""
    if window_of(config.env, prompt_form(config.get("prompt")), config.get(FORM)) is not None:
        mode = config.trainer.v1.trainer_mode
        TRAINER_REGISTRY[mode] = type("WindowTrainer", (WindowRows, TRAINER_REGISTRY[mode]), {})
