"""Replaces verl's ``Tracking``: tensorboard, W&B and trackio are our classes, others verl's."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from verl import DataProto
from verl.utils import tracking as verls

from turngrid.records.files.json_lines import read_lines
from turngrid.records.metrics import append_metrics, in_families
from turngrid.records.tracking import TRACKERS, StageRun, Trackers

MOMENTS = {"advantages": "credit/advantage", "returns": "credit/return", "values": "credit/value"}


class RunTracking:
    """Logs to our append-only file, then to trackers that continue after a restart.

    ``config["run"]`` has the path of ``metrics.jsonl`` and the trackers.

    Until verl lets a config name the class.
    """

    def __init__(
        self, project_name: str, experiment_name: str, default_backend: Sequence[str], config: Mapping[str, Any]
    ) -> None:
        others = [name for name in default_backend if name not in TRACKERS]
        self._verls = verls.Tracking(project_name, experiment_name, others, config)
        run = config["run"]
        self._file = Path(run["metrics"])
        logged = read_lines(self._file)
        self._logged = {line["step"] for line in logged}
        self.trackers = Trackers(StageRun(**run["tracking"]), logged)

    def log(self, data: Mapping[str, Any], step: int, backend: str | None = None) -> None:
        if step in self._logged:  # an earlier attempt logged it, and this is validation before the run goes on
            return
        named = in_families(data)
        append_metrics(self._file, step, named)
        self.trackers.log(step, named)
        self._verls.log(data=named, step=step, backend=backend)

    def finish(self, exit_code: int = 0) -> None:
        self.trackers.finish(exit_code)
        self._verls.finish(exit_code)


def moments(batch: DataProto) -> dict[str, float]:
    """Return the number of sampled tokens, and the spread of advantages, returns and values."""
    mask = batch.batch["response_mask"].bool()
    metrics: dict[str, float] = {"credit/trained_tokens": float(mask.sum())}
    for field, name in MOMENTS.items():
        values = torch.masked_select(batch.batch[field], mask) if field in batch.batch else mask.new_empty(0)
        if values.numel():
            metrics[f"{name}/std"] = values.float().std(correction=0).item()
            if field == "advantages":
                metrics[f"{name}/zero_share"] = (values == 0).float().mean().item()
                metrics |= _of_rewards(batch, mask)
    return metrics


def _of_rewards(batch: DataProto, mask: torch.Tensor) -> dict[str, float]:
    """Return the correlation over rows of mean advantage and reward, if neither is constant.

    It is positive if a group's advantages add up to 0.
    """
    tokens = mask.sum(-1).clamp(min=1)
    advantages = (batch.batch["advantages"] * mask).sum(-1) / tokens
    both = torch.stack([advantages, batch.batch["token_level_scores"].sum(-1)]).double()
    if (both.std(-1, correction=0) < 1e-6).any():
        return {}
    return {"credit/advantage/follows_reward": torch.corrcoef(both)[0, 1].item()}


def with_moments(verls: Callable[..., dict[str, Any]], batch: DataProto, use_critic: bool = True) -> dict[str, Any]:
    """Log the spread of advantages, returns and values too.

    Until verl logs it.
    """
    return {**verls(batch=batch, use_critic=use_critic), **moments(batch)}
