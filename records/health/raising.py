"""Raises alarms while a run trains: in its folder, in trackers, and by ending the trainer.

The trainer's process calls this after a step is logged and before its checkpoint is saved. So an
ill step leaves no checkpoint.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from turngrid.records.files.json_lines import append_line, read_lines
from turngrid.records.health.alarms import Alarm, Curves, alarms
from turngrid.records.metrics import in_families, plain, read_metrics
from turngrid.records.process.exit_codes import Failure
from turngrid.records.resume import RlFolder

STOP, ROLLBACK, OFF = "stop", "rollback", "off"
MOST_ROLLBACKS = 2
PAST = "RL goes on past this alarm, from its last checkpoint, if it is started again."
Alert = Callable[[str, str], None]  # takes title and text


def limits_of(health: Mapping[str, Any]) -> dict[str, float]:
    """Return the limits of the node ``health``; an alarm whose limit is null is off."""
    return {name: float(limit) for name, limit in health.items() if name != "name" and limit is not None}


def read_alarms(rl: RlFolder) -> list[Alarm]:
    return [Alarm(**json.loads(line)) for line in read_lines(rl.alarms)]


class Watch:
    """Looks at each logged step; ``alert`` shows an alarm in trackers."""

    def __init__(self, rl: RlFolder, health: Mapping[str, Any], alert: Alert, of_groups: bool) -> None:
        self._rl, self._alert = rl, alert
        self._option, self._limits = str(health["name"]), limits_of(health)
        self._curves = Curves.of(read_metrics(rl.metrics), of_groups)
        self._known = {(alarm.step, alarm.name) for alarm in read_alarms(rl)}

    def __call__(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Look at a step, after it is logged.

        Raises:
            Failure: an alarm ends the trainer.
        """
        if self._option == OFF:
            return
        self._curves.append({"step": step, **plain(in_families(metrics))})
        self._raise(alarm for alarm in alarms(self._curves, self._limits) if alarm.step == step)

    def _raise(self, raised: Iterable[Alarm]) -> None:
        new = [self._with_action(alarm) for alarm in raised if (alarm.step, alarm.name) not in self._known]
        for alarm in new:
            self._known.add((alarm.step, alarm.name))
            append_line(self._rl.alarms, asdict(alarm))
            self._alert(f"turngrid: {alarm.name}", str(alarm))
        if ends := next((alarm for alarm in new if alarm.action), None):
            raise Failure(f"health={self._option}: {ends}\n{PAST}")

    def _with_action(self, alarm: Alarm) -> Alarm:
        """Return the alarm with what it does: a rollback only helps if the rate is the cause."""
        if self._option == STOP:
            return replace(alarm, action=STOP)
        if self._option == ROLLBACK and alarm.by_rate:
            number = len(read_lines(self._rl.rollbacks)) + 1
            return replace(alarm, action=f"{ROLLBACK} {number}" if number <= MOST_ROLLBACKS else STOP)
        return alarm
