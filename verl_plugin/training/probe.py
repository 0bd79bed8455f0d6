"""Measures a run for ``turngrid.train.doctor``: each step's log-probs, by server and trainer.

The process of the RL stage calls ``train`` in place of ``turngrid.verl_plugin.training.task``.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig
from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.turn_table import turn_ids
from turngrid.records.resume import RlFolder
from turngrid.verl_plugin.training import task
from turngrid.verl_plugin.training.step import Metrics
from turngrid.verl_plugin.training.task import TurngridTrainer
from turngrid.verl_plugin.training.turn_rows import padded, read, write_tokens
from turngrid.verl_plugin.training.turn_updates import log_probs


def train(config: DictConfig) -> None:
    """Train as a run does, and write the log-probs of each step."""
    task.TRAINERS["sync"] = ProbedTrainer
    task.train(config)


class ProbedTrainer(TurngridTrainer):
    """A trainer whose update raises every sampled token's probability, whatever the rewards."""

    def learn(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Compute the trainer's log-probs again after the update, with LoRA also without it."""
        names = ("rollout_log_probs", "old_log_probs", "response_mask")
        data = read(batch, *names)
        server, before, mask = (padded(data[name]) for name in names)
        lengths = [len(row) for row in data["response_mask"].unbind()]
        batch = super().learn(write_tokens(batch, {"advantages": mask.float()}, lengths), metrics)
        columns = {"server": server, "before": before, "after": log_probs(batch, self)[0]}
        if self.ref_in_actor:
            batch.extra_info["no_lora_adapter"] = True
            columns["base"] = log_probs(batch, self)[0]
            del batch.extra_info["no_lora_adapter"]
        real = torch.tensor([not tag.get("is_padding", False) for tag in batch.tags])
        self._write(columns, mask.bool() & real[:, None])
        return batch

    def _write(self, columns: dict[str, Tensor], sampled: Tensor) -> None:
        columns = {"turn": turn_ids(sampled) - 1, **columns}
        folder = RlFolder(Path(self.config.run.folder)).probe
        folder.mkdir(exist_ok=True)
        chosen: dict[str, Any] = {name: column[sampled].float().numpy() for name, column in columns.items()}
        np.savez(folder / f"{self.global_steps:06d}.npz", **chosen)
