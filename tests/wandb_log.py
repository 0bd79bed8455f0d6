"""Reads W&B's offline logs (``wandb/offline-run-*`` of a run folder) with W&B's own command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class WandbRun:
    """The one run of a run folder, from the logs that its attempts left.

    A step that two attempts logged counts once in ``history``, as the first one logged it (so does
    W&B's server); ``ended`` is the last attempt's exit code, None where it was killed.
    """

    def __init__(self, folder: Path) -> None:
        logs = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))
        assert len({log.name for log in logs}) == 1
        self.attempts = [_records(log) for log in logs]
        self.about = self._all("run")[-1]
        self.config = self.about["config"]["update"]
        lines = {line["_step"]: line for line in reversed([record["item"] for record in self._all("history")])}
        self.history = [lines[step] for step in sorted(lines)]
        self.axes = {record["name"]: record["step_metric"] for record in self._all("metric") if "name" in record}
        self.alerts = [(record["title"], record["text"]) for record in self._all("alert")]
        self.ended = next((one["exit"]["exit_code"] for one in self.attempts[-1] if one["type"] == "exit"), None)

    def _all(self, kind: str) -> list[dict[str, Any]]:
        return [record[kind] for records in self.attempts for record in records if record["type"] == kind]

    def stage(self, name: str) -> list[dict[str, Any]]:
        """What a stage logged, each line with its own ``step``."""
        return [{**line, "step": line[f"{name}/step"]} for line in self.history if f"{name}/step" in line]


def _records(log: Path) -> list[dict[str, Any]]:
    """Each has its type, under which its content is; one that a kill cut short is left out."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(log)]
    offline = {**os.environ, "WANDB_MODE": "offline"}  # else the command reports its use to W&B
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=offline)
    return list(map(json.loads, done.stdout.splitlines()))
