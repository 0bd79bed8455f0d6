"""Hydra's door to a launcher of several runs at once. Hydra takes plugins from a folder of this name only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from hydra.utils import get_class
from omegaconf import DictConfig


class ParallelLauncher(Launcher):
    """Several runs at once on this machine, each a process with a log of its own.

    Args:
        launch: ``module.Class``; made with the other arguments, its ``run`` starts the runs.
        folder: of the logs.
        places: one for each run that goes at the same time as others: its ``CUDA_VISIBLE_DEVICES``, None: as it is.
        config_dir: of ``--config-dir``.
    """

    def __init__(self, launch: str, folder: str, places: list[str | None], config_dir: str | None = None) -> None:
        self._launch = get_class(launch)(Path(folder), list(places), config_dir)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """What Hydra offers is not needed: a run is the front door again."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        codes = self._launch.run(job_overrides, initial_job_idx)
        return [JobReturn(status=JobStatus.COMPLETED, _return_value=code) for code in codes]
