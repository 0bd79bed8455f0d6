"""Measures a run for ``turngrid.train.doctor``: each step's log-probs, by server and trainer.

The process of the RL stage calls ``train`` in place of ``turngrid.verl_plugin.training.task``.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.turn_table import turn_ids
from turngrid.records.resume import RlFolder
from turngrid.verl_plugin.training import task
from turngrid.verl_plugin.training.step import Metrics
from turngrid.verl_plugin.training.task import TurngridTrainer
from turngrid.verl_plugin.training.turn_rows import padded, write_tokens


def train(config: DictConfig) -> None:
    """Train as a run does, and write the log-probs of each step."""
    task.TRAINERS["sync"] = ProbedTrainer
    task.train(config)


class ProbedTrainer(TurngridTrainer):
    """A trainer whose update raises every sampled token's probability, whatever the rewards."""

    def learn(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Compute the trainer's log-probs again after the update, with LoRA also without it."""
        columns = self._read(batch, "rollout_log_probs", "old_log_probs", "response_mask")
        server, before, mask = (columns[name] for name in ("rollout_log_probs", "old_log_probs", "response_mask"))
        batch = write_tokens(batch, {"advantages": mask.float()}, columns["lengths"].tolist())
        batch = super().learn(batch, metrics)
        columns = {"server": server, "before": before, "after": self._log_probs(batch)}
        if self.ref_in_actor:
            batch.extra_info["no_lora_adapter"] = True
            columns["base"] = self._log_probs(batch)
            batch.extra_info.pop("no_lora_adapter", None)
        real = torch.tensor([not tag.get("is_padding", False) for tag in batch.tags])
        self._write(columns, mask.bool() & real[:, None])
        return batch

    def _log_probs(self, batch: KVBatchMeta) -> Tensor:
        """Return the log-probs of the trainer's weights now, (rows, tokens) in nats."""
        self._compute_old_log_prob(batch, {})
        return self._read(batch, "old_log_probs")["old_log_probs"]

    def _read(self, batch: KVBatchMeta, *fields: str) -> dict[str, Tensor]:
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(fields))
        lengths = torch.tensor([len(row) for row in data[fields[0]].unbind()])
        return {"lengths": lengths, **{name: padded(data[name]) for name in fields}}

    def _write(self, columns: dict[str, Tensor], sampled: Tensor) -> None:
        columns = {"turn": turn_ids(sampled) - 1, **columns}
        folder = RlFolder(Path(self.config.run.folder)).probe
        folder.mkdir(exist_ok=True)
        chosen: dict[str, Any] = {name: column[sampled].float().numpy() for name, column in columns.items()}
        np.savez(folder / f"{self.global_steps:06d}.npz", **chosen)
