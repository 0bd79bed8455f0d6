"""Dynamic sampling with a limit: groups of equal scores are replaced by other prompts.

verl's own (``algorithm.filter_groups``) samples without limit until it has enough groups, and takes
those that were ready first. Here all groups of a step are sampled to the end, and in each round
groups of equal scores are replaced one for one. So the training data depends only on the scores.
"""

import time
from collections import defaultdict
from typing import Any

import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from turngrid.algorithms.chosen import Scheduled
from turngrid.algorithms.filters.zero_std import equal_scores
from turngrid.algorithms.group import group_ids

NAME = "dynamic_sampling"
METRIC = f"filter/{NAME}"


class DynamicSampler(ReplayBuffer):
    """Replay buffer of a synchronous trainer with ``filter=dynamic_sampling``.

    Its settings are ``sampler_kwargs``; verl loads it by ``trainer.v1.sampler.custom_sampler``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings: Any = OmegaConf.to_container(self.sampler_kwargs, resolve=True)
        self._method = Scheduled("filter", NAME, settings)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """Groups of equal scores are replaced in a bounded number of rounds.

        Until verl's filter of groups has such a bound, whichever groups are ready first.
        """
        if partition_id == "val":
            return super().sample(global_steps, partition_id, batch_size)
        most, replaced = (self._method.at(global_steps).batches - 1) * batch_size, 0
        while True:
            self._play_to_the_end(partition_id)
            equal = self._equal(partition_id)
            dropped = equal[: most - replaced]
            replaced += len(dropped)
            with_rows = {key.split("_")[0] for key in self.partitions[partition_id]}
            self._clear_groups(partition_id, {*dropped, *(self.failure_keys[partition_id] - with_rows)})
            missing = batch_size - len(self._played(partition_id))
            if missing <= 0:
                break
            self.refill_fn(missing)
        batch = self._materialize_batch(partition_id, self._played(partition_id), dict(self.partitions[partition_id]))
        return batch, {f"{METRIC}/replaced": replaced, f"{METRIC}/left": len(equal) - len(dropped)}

    def _play_to_the_end(self, partition_id: str) -> None:
        self._sync_metadata_from_transfer_queue()
        reported = time.time()
        while self.pending_keys[partition_id] or self.running_keys[partition_id]:
            reported = self._wait_for_next_poll(partition_id, reported)
            self._sync_metadata_from_transfer_queue()

    def _played(self, partition_id: str) -> list[str]:
        return sorted(self.finished_keys[partition_id] | self.failure_keys[partition_id])

    def _equal(self, partition_id: str) -> list[str]:
        """Return the groups of equal scores, in the order of their prompts."""
        rows = list(self.partitions[partition_id])
        if not rows:
            return []
        rewards = tq.kv_batch_get(keys=rows, partition_id=partition_id, select_fields=["rm_scores"])["rm_scores"]
        sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros(2, dtype=torch.float64))
        for key, row in zip(rows, rewards.unbind(), strict=True):
            sums[key.rpartition("_")[0]] += torch.stack([row.double().sum(), row.double().abs().sum()])
        groups = [episode.rpartition("_")[0] for episode in sums]
        scores, sizes = torch.stack(list(sums.values())).unbind(dim=1)
        equal = equal_scores(scores, sizes, number := group_ids(groups))[number].tolist()
        return sorted({group for group, same in zip(groups, equal, strict=True) if same})
