"""The alarms of a run's metrics, and the watch that raises them while the run trains."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain, compress
from typing import Any

import numpy as np

from turngrid.records.files.json_lines import append_line, read_lines
from turngrid.records.health.conditions import LAST, Array, not_finite
from turngrid.records.health.rules import OF_GROUPS, RULES, STAGE, Rule
from turngrid.records.metrics import in_families, plain
from turngrid.records.process.exit_codes import Failure
from turngrid.records.resume import RlFolder

STOP, ROLLBACK, OFF = "stop", "rollback", "off"
MOST_ROLLBACKS = 2
SFT_ALARMS = "sft/alarms.jsonl"  # in a run's folder
PAST = "RL goes on past this alarm, from its last checkpoint, if it is started again."
READ = {STAGE} | {name for rule in RULES for name in (*rule.metrics, rule.instead, rule.unless) if name}
PATTERNS = [name for name in READ if "*" in name]


@dataclass(frozen=True)
class Alarm:
    """What was seen at a step, and what to try."""

    step: int
    name: str
    seen: str
    advice: str
    cause: str = ""
    metric: str = ""
    since: int = 0  # the first step that the condition looked at
    by_rate: bool = False
    action: str = ""  # what it does: "", ``stop``, or ``rollback N`` for the Nth of the run

    def __str__(self) -> str:
        return f"step {self.step}: {self.name}: {'; '.join(filter(None, [self.seen, self.cause, self.advice]))}"


@dataclass
class Curves:
    """The metrics that rules read, by step."""

    of_groups: bool = True  # whether the samples of a prompt are compared
    steps: list[int] = field(default_factory=list)
    columns: dict[str, dict[int, float]] = field(default_factory=dict)  # metric -> step -> value

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]], of_groups: bool = True) -> "Curves":
        curves = cls(of_groups)
        for line in lines:
            curves.append(line)
        return curves

    def append(self, line: Mapping[str, Any]) -> None:
        """Add a step; an earlier one than the last begins a new attempt, which replaces the old."""
        step = int(line["step"])
        if self.steps and step < self.steps[-1]:
            self.cut(step)
        if not self.steps or step > self.steps[-1]:
            self.steps.append(step)
        for name, value in line.items():
            if self.is_read(name):
                self.columns.setdefault(name, {})[step] = number(value)

    def cut(self, step: int) -> None:
        """Drop the steps from this one on."""
        self.steps = [own for own in self.steps if own < step]
        for column in self.columns.values():
            for own in [own for own in column if own >= step]:
                del column[own]

    def is_read(self, name: str) -> bool:
        """Return whether a rule reads this metric."""
        if name.startswith(OF_GROUPS) and not self.of_groups:
            return False
        return name in READ or any(fnmatchcase(name, pattern) for pattern in PATTERNS)

    def readings(self, rule: Rule) -> Iterator[tuple[str, list[int], list[Array]]]:
        """Yield a metric, the steps with all of the rule's metrics, and an array for each.

        Only ``not_finite`` sees NaN and infinity: in a running sum, one would hide all later steps.
        """
        if rule.unless and any(fnmatchcase(name, rule.unless) for name in self.columns):
            return
        first, *others = rule.metrics
        if rule.instead and not self.columns.get(first):
            first = rule.instead
        for name in [name for name in self.columns if fnmatchcase(name, first)]:
            columns = [self.columns.get(own, {}) for own in (name, *others)]
            steps = [step for step in self.steps if all(step in column for column in columns)]
            arrays = np.array([[column[step] for step in steps] for column in columns])
            whole = np.full(len(steps), rule.condition is not_finite) | np.isfinite(arrays).all(0)
            if whole.any():
                yield name, list(compress(steps, whole)), list(arrays[:, whole])

    def starts(self, steps: list[int]) -> list[int]:
        """Return where, in a list of steps, a stage of the curriculum begins; without one: 0."""
        if STAGE not in self.columns:
            return [0]
        stages = [self.columns[STAGE].get(step) for step in steps]
        return [at for at, stage in enumerate(stages) if not at or stage != stages[at - 1]]


def number(value: Any) -> float:
    """Return a metric's value; NaN for one that is no finite number."""
    try:
        return float(value) if math.isfinite(float(value)) else math.nan
    except (TypeError, ValueError):
        return math.nan


def alarms(curves: Curves, limits: Mapping[str, float]) -> list[Alarm]:
    """Return the alarms by step, each where its condition begins to hold; limits are by rule."""
    raised = chain.from_iterable(_of_rule(rule, curves, limits[rule.name]) for rule in RULES if rule.name in limits)
    first: dict[tuple[int, str], Alarm] = {}
    for alarm in raised:
        first.setdefault((alarm.step, alarm.name), alarm)
    return sorted(first.values(), key=lambda alarm: alarm.step)


def _of_rule(rule: Rule, curves: Curves, limit: float) -> Iterator[Alarm]:
    """Yield alarms where the condition holds, and did not in the ``LAST`` steps before.

    Each stage of a curriculum has other tasks, so a step is compared with those of its stage.
    """
    for name, steps, arrays in curves.readings(rule):
        starts = curves.starts(steps)
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = zip(*(np.split(array, starts[1:]) for array in arrays), strict=True)
            held = np.flatnonzero(np.concatenate([rule.condition.holds(part, limit) for part in parts]))
            for at in map(int, held[np.diff(held, prepend=-LAST - 1) > LAST]):
                start = max(own for own in starts if own <= at)
                seen = [array[start : at + 1] for array in arrays]
                text = rule.condition.text(seen, limit).format(other=rule.metrics[-1])
                since = steps[max(start, at + 1 - rule.condition.steps)]
                yield Alarm(steps[at], rule.name, f"{name}: {text}", rule.advice, rule.cause, name, since, rule.by_rate)


# ---- while a run trains


def limits_of(health: Mapping[str, Any]) -> dict[str, float]:
    """Return the limits of the node ``health``; an alarm whose limit is null is off."""
    return {name: float(limit) for name, limit in health.items() if name != "name" and limit is not None}


def read_alarms(rl: RlFolder) -> list[Alarm]:
    return [Alarm(**line) for line in read_lines(rl.alarms)]


class Watch:
    """Raises alarms: in the run's folder, in trackers (``alert``), and by ending the trainer.

    The trainer calls it after a step is logged and before its checkpoint is saved, so an ill step
    leaves no checkpoint.
    """

    def __init__(
        self, rl: RlFolder, health: Mapping[str, Any], alert: Callable[[str, str], None], of_groups: bool
    ) -> None:
        self._rl, self._alert = rl, alert
        self._option, self._limits = str(health["name"]), limits_of(health)
        self._curves = Curves.of(read_lines(rl.metrics), of_groups)
        self._known = {(alarm.step, alarm.name) for alarm in read_alarms(rl)}

    def __call__(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Look at a step.

        Raises:
            Failure: an alarm ends the trainer.
        """
        if self._option == OFF:
            return
        self._curves.append({"step": step, **plain(in_families(metrics))})
        raised = [alarm for alarm in alarms(self._curves, self._limits) if alarm.step == step]
        new = [self._with_action(alarm) for alarm in raised if (step, alarm.name) not in self._known]
        for alarm in new:
            self._known.add((step, alarm.name))
            append_line(self._rl.alarms, alarm)
            self._alert(f"turngrid: {alarm.name}", str(alarm))
        if ends := [f"health={self._option}: {alarm}" for alarm in new if alarm.action]:
            raise Failure("\n".join([*ends, PAST]))

    def _with_action(self, alarm: Alarm) -> Alarm:
        """Return the alarm with what it does: a rollback only helps if the rate is the cause."""
        if self._option == STOP:
            return replace(alarm, action=STOP)
        if self._option == ROLLBACK and alarm.by_rate:
            number = len(read_lines(self._rl.rollbacks)) + 1
            return replace(alarm, action=f"{ROLLBACK} {number}" if number <= MOST_ROLLBACKS else STOP)
        return alarm
