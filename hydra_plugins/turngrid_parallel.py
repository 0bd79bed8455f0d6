"""Hydra's door to ``train.launching_parallel``. Hydra takes plugins from a folder of this name only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class ParallelLauncher(Launcher):
    """Several runs at once on this machine, each a process with a log of its own.

    Args:
        folder: of the logs.
        runs_at_once: processes.
    """

    def __init__(self, folder: str, runs_at_once: int) -> None:
        self.folder, self.runs_at_once = Path(folder), runs_at_once

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """What Hydra offers is not needed: a run is the front door again."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from train import launching_parallel

        codes: list[Any] = launching_parallel.launch(self.folder, self.runs_at_once, job_overrides, initial_job_idx)
        return [JobReturn(status=JobStatus.COMPLETED, _return_value=code) for code in codes]
