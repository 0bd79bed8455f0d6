"""verl's asynchronous trainers with our parts of a step (docs/async.md).

Episodes are sampled while others are trained on. So a step's groups are those that verl's replay
buffer picked for it, whenever their prompts were dispatched. It differs from the synchronous
trainer in two ways:

- a group's file stays in a separate folder until a checkpoint records what became of the group
  (``rollout_groups``), and a step's record is made of the groups that it trained on;
- no more prompts are dispatched than the remaining steps will train on, so that no episode is
  sampled in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import transfer_queue as tq
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync

from turngrid.records.resume import RlFolder
from turngrid.rollouts.episode import Episode
from turngrid.verl_plugin.rollout.llm_client import client_class
from turngrid.verl_plugin.training.rollout_groups import RolloutGroups
from turngrid.verl_plugin.training.step import Metrics, Step
from turngrid.verl_plugin.training.step_records import StepGroups
from turngrid.verl_plugin.training.trainer import StepTrainer, row_order

PARTITION = "train"


class AsyncGroups(StepGroups):
    """The groups that an asynchronous step trains on, and those that wait for a later step."""

    def __init__(self, config: DictConfig, step: Step) -> None:
        super().__init__(config, step)
        self.waiting = RolloutGroups(RlFolder(Path(config.run.folder)))
        self.trained: list[str] = []  # prompt ids of this step

    def begin(self) -> None:
        self.trained = []
        super().begin()

    def note(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        self.trained += sorted({row_order(key)[0] for key in batch.keys})
        return batch

    def files(self) -> list[Path]:
        return [self.waiting.file(group) for group in sorted(self.trained)]

    def failures(self) -> list[Path]:
        return self.waiting.failures()

    def metrics(self, groups: Sequence[Sequence[Episode]]) -> dict[str, float]:
        """Return the staleness of the weights that sampled the step's episodes."""
        return staleness_metrics(list(chain.from_iterable(groups)), self._step.number)

    def recorded(self) -> None:
        super().recorded()
        for cause in self.failures():
            cause.unlink()

    def saved(self) -> None:
        self.waiting.settle(self._step.number, prompts_in_queue())

    def restored(self) -> None:
        """Restore groups that were sampled before the checkpoint and not yet trained on."""
        if lost := self.waiting.restore(self._step.number, prompts_in_queue()):
            sample_again(lost, self._step.number)


def sample_again(groups: Sequence[str], step: int) -> None:
    """Mark groups whose files are missing as pending, so that verl samples them again."""
    print(f"turngrid: rl/groups lacks {', '.join(groups)}; these groups are played again", flush=True)
    tags = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in groups]
    tq.kv_batch_put(keys=list(groups), partition_id=PARTITION, tags=tags)


def prompts_in_queue() -> dict[str, str]:
    """Return id -> status of every prompt that was dispatched and not yet trained on."""
    tags = (tq.kv_list(PARTITION) or {}).get(PARTITION, {})
    return {key: tag["status"] for key, tag in tags.items() if tag.get("is_prompt")}


def staleness_metrics(episodes: Sequence[Episode], step: int) -> dict[str, float]:
    """Return mean and maximum staleness of the weights that sampled a step's episodes.

    ``rollout/staleness/*``: updates between an episode's oldest turn and the step, 0 if on-policy.
    ``rollout/versions/*``: number of weight versions that sampled one episode.
    """
    spans = [episode.versions() for episode in episodes]
    lags = [step - 1 - oldest for oldest, _ in spans]
    versions = [newest - oldest + 1 for oldest, newest in spans]
    return {**_of("rollout/staleness", lags), **_of("rollout/versions", versions)}


def _of(name: str, numbers: Sequence[int]) -> dict[str, float]:
    if not numbers:
        return {}
    return {f"{name}/mean": sum(numbers) / len(numbers), f"{name}/max": float(max(numbers))}


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
        wanted = min(num_prompts, self._still_to_train() - len(prompts_in_queue()))
        return super()._add_prompts_to_generate(wanted) if wanted > 0 else 0

    def _still_to_train(self) -> int:
        steps = self.total_training_steps - self.global_steps + 1
        return steps * self.config.data.train_batch_size - len(self.groups.trained)


class ColocateAsyncTrainer(AsyncTrainer, PPOTrainerColocateAsync):
    """The trainer for ``colocate_async``: sampling pauses while the trainer uses the devices."""


class SeparateAsyncTrainer(AsyncTrainer, PPOTrainerSeparateAsync):
    """The trainer for ``trainer.v1.trainer_mode=separate_async``: rollouts have separate
    devices.
    """
