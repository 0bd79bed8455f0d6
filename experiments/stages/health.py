"""Raises the alarms of a running RL stage (docs/health.md)."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from omegaconf import OmegaConf
from tqdm import tqdm

from turngrid.records.files.json_lines import append_line, read_lines
from turngrid.records.health import Alarm, alarms
from turngrid.records.process.child import StageFailed
from turngrid.records.process.exit_codes import say
from turngrid.records.resume import RlFolder
from turngrid.tasks.run import Run

Lines = Sequence[Mapping[str, Any]]
Watch = Callable[[Lines], None]  # takes the metrics of all steps so far, again after each step


def watch(run: Run) -> Watch:
    """Return what raises a run's alarms, as ``health=`` says."""
    settings: Any = OmegaConf.to_container(run.config.health)
    action = settings.pop("name")
    if action == "off":
        return lambda _: None
    limits = {name: limit for name, limit in settings.items() if limit is not None}
    return Alarms(run.rl, limits, stops=action == "stop")


class Alarms:
    """Tells each alarm once: a line in the terminal, and one in ``rl/alarms.jsonl``.

    Args:
        limits: as ``turngrid.records.health.alarms`` takes them.
        stops: whether a new alarm ends the stage.
    """

    def __init__(self, rl: RlFolder, limits: Mapping[str, float], stops: bool) -> None:
        self._rl, self._limits, self._stops = rl, limits, stops
        earlier = (json.loads(line) for line in read_lines(rl.alarms))
        self._told = {(alarm["step"], alarm["name"]) for alarm in earlier}
        self._read = 0

    def __call__(self, lines: Lines) -> None:
        """Look at the lines that are new.

        Raises:
            StageFailed: an alarm ends the run.
        """
        for count in range(self._read + 1, len(lines) + 1):
            for alarm in alarms(lines[:count], self._limits):
                if (alarm.step, alarm.name) not in self._told:
                    self._tell(alarm)
        self._read = len(lines)

    def _tell(self, alarm: Alarm) -> None:
        self._told.add((alarm.step, alarm.name))
        append_line(self._rl.alarms, asdict(alarm))
        if self._stops:
            raise StageFailed(
                f"health=stop: {alarm}\nEverything up to the last checkpoint is kept; the same command goes on."
            )
        with tqdm.external_write_mode(file=sys.stderr):
            say(f"alarm: {alarm}")
