"""Our Hydra Sweeper: it launches what a sweep's record lists, less what is finished.

It lies in a folder of this name since Hydra takes plugins from nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

NAME = "turngrid"


class TurngridSweeper(Sweeper):
    """Sets of overrides times seeds, which Hydra's own product of choices cannot say.

    Args:
        folder: of the sweep, with its record; runs lie beside the folder that holds it.
        runs: folders of the runs that were asked for; the record may hold others, of earlier launches.
    """

    def __init__(self, folder: str, runs: list[str]) -> None:
        self.folder, self.runs = Path(folder), frozenset(runs)
        self.launcher: Any = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Hand every run that is not finished to the launcher, all at once: one array job on SLURM."""
        todo = self._todo()
        return [self.launcher.launch(todo, initial_job_idx=0)] if todo else []

    def _todo(self) -> list[list[str]]:
        from experiments.evaluation.result import State, state
        from experiments.sweep import record  # Hydra imports this module at every start, to see what is in it

        sweep = record.read(self.folder)
        assert sweep is not None, f"no {record.FILE} in {self.folder}"
        output_dir = self.folder.parent.parent
        wanted = [run for run in sweep.runs if run.folder in self.runs]
        left = [run for run in wanted if state(output_dir / run.folder) is not State.FINISHED]
        done = len(wanted) - len(left)
        print(f"turngrid: sweep {sweep.folder_name}: {len(left)} runs to go, {done} finished", file=sys.stderr)
        return [run.overrides for run in {run.folder: run for run in left}.values()]  # two settings may be one run


def register() -> None:
    """Let Hydra know it, also where Hydra's own search of the path does not find this folder (an editable install)."""
    Plugins.instance().register(TurngridSweeper)
    node = {"_target_": f"{__name__}.{TurngridSweeper.__name__}", "folder": "???", "runs": "???"}
    ConfigStore.instance().store(group="hydra/sweeper", name=NAME, node=node, provider=NAME)


def arguments(folder: Path, runs: Sequence[str]) -> list[str]:
    """What makes Hydra use it for ``runs``, named by their folders."""
    listed = ",".join(f"'{run}'" for run in runs)
    settings = [f"hydra.sweeper.folder='{folder}'", f"hydra.sweeper.runs=[{listed}]"]
    return [f"hydra/sweeper={NAME}", *settings, f"hydra.sweep.dir='{folder}'"]
