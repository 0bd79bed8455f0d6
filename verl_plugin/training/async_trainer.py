"""verl's asynchronous trainers with our records (docs/async.md).

Episodes are played while others are learned from, so that a step's groups are those that verl's replay buffer picked for it,
whenever they were handed out. What differs from the synchronous trainer:

- the agent loops put a group's file where it waits until a checkpoint knows what became of it
  (``verl_plugin.training.rollout_groups``), and a step's record is made of the groups that it trained on;
- prompts that were handed out before the first step count as that step's, so that no prompt id is given twice;
- no more prompts are handed out than the steps to come will train on: nothing is played to be thrown away at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_separate_async
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync

from records.resume import RlFolder
from rollouts.episode import Episode
from verl_plugin.rollout.llm_client import client_class
from verl_plugin.training.rollout_groups import RolloutGroups
from verl_plugin.training.staleness import staleness_metrics
from verl_plugin.training.trainer import MAX_FAILED_GROUPS, StepRecords, row_order

PARTITION = "train"


class AsyncRecords(StepRecords):
    """Mixed into verl's asynchronous trainers."""

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._groups = RolloutGroups(RlFolder(Path(config.run.folder)))
        self._first_step = 0
        self._trained: list[str] = []  # prompt ids, in this step

    def get_llm_client(self) -> Any:
        servers = getattr(self, "standalone_server_manager", None) or self.llm_server_manager
        return servers.get_client(client_cls=client_class(self.config.actor_rollout_ref.rollout.name))

    # ---- prompts

    def on_train_begin(self) -> None:
        self._first_step = self.global_steps
        super().on_train_begin()

    def _handed_out(self) -> int:
        return self._prompts_of_step if self.global_steps == self._first_step else 0

    def _add_batch_to_generate(self) -> None:
        self._add_prompts_to_generate(self.config.data.train_batch_size)

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """Also verl's refill of what was dropped."""
        wanted = min(num_prompts, self._still_to_train() - len(prompts_in_queue()))
        return super()._add_prompts_to_generate(wanted) if wanted > 0 else 0

    def _still_to_train(self) -> int:
        steps = self.total_training_steps - self.global_steps + 1
        return steps * self.config.data.train_batch_size - len(self._trained)

    def _guard_against_endless_refills(self) -> None:
        """Prompts come for other reasons than failures too."""
        failed = len(self._failures())
        if failed > MAX_FAILED_GROUPS * self.config.data.train_batch_size:
            self._prompts_of_step = failed + self.config.data.train_batch_size
            super()._guard_against_endless_refills()

    # ---- what a step trained on

    def on_step_begin(self) -> None:
        self._trained = []
        super().on_step_begin()

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        """The first thing that is done with rows that were picked."""
        self._trained += sorted({row_order(key)[0] for key in batch.keys})
        return super()._balance_batch(batch, metrics, **kwargs)

    def _groups_of_step(self) -> list[Path]:
        return [self._groups.file(group) for group in sorted(self._trained)]

    def _failures(self) -> list[Path]:
        return self._groups.failures()

    def gather_episodes(self) -> dict[str, float]:
        metrics = super().gather_episodes()
        for cause in self._failures():
            cause.unlink()
        return metrics

    def _more_metrics(self, groups: Sequence[Sequence[Episode]]) -> dict[str, float]:
        return staleness_metrics(list(chain.from_iterable(groups)), self.global_steps)

    # ---- checkpoints

    def checkpoint_is_whole(self) -> None:
        self._groups.settle(self.global_steps, prompts_in_queue())
        super().checkpoint_is_whole()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        lost = self._groups.restore(self.global_steps, prompts_in_queue())
        if lost:
            set_evaluation_aside(lost, self.global_steps)


def set_evaluation_aside(groups: Sequence[str], step: int) -> None:
    """Groups that are ready and of which no record is left: verl plays prompts that are pending once it has resumed."""
    print(f"turngrid: rl/groups lacks {', '.join(groups)}; these groups are played again", flush=True)
    tags = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in groups]
    tq.kv_batch_put(keys=list(groups), partition_id=PARTITION, tags=tags)


def prompts_in_queue() -> dict[str, str]:
    """The status of every prompt that was handed out and not yet trained on, by its id."""
    tags = (tq.kv_list(PARTITION) or {}).get(PARTITION, {})
    return {key: tag["status"] for key, tag in tags.items() if tag.get("is_prompt")}


class ColocateAsyncTrainer(AsyncRecords, PPOTrainerColocateAsync):
    """For ``trainer.v1.trainer_mode=colocate_async``: episodes pause while the trainer has the devices."""


class SeparateAsyncTrainer(AsyncRecords, PPOTrainerSeparateAsync):
    """For ``trainer.v1.trainer_mode=separate_async``: rollouts have devices of their own."""


class _WithoutFlush(logging.LoggerAdapter):
    """verl 0.9.1 logs that there are no rollouts on the trainer's devices with an argument of ``print``, and ends there."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return msg, {name: value for name, value in kwargs.items() if name != "flush"}


def install() -> None:
    trainer_separate_async.logger = _WithoutFlush(trainer_separate_async.logger)
    TRAINER_REGISTRY["colocate_async"] = ColocateAsyncTrainer
    TRAINER_REGISTRY["separate_async"] = SeparateAsyncTrainer
