"""Alarms: what the metrics of a running RL stage say about its health (docs/health.md).

A rule reads one metric of all steps so far. It raises an alarm at the step where its condition
begins to hold, not again while it holds.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from omegaconf import OmegaConf
from tqdm import tqdm

from turngrid.records.files.json_lines import append_line, read_lines
from turngrid.records.process.child import StageFailed
from turngrid.records.process.exit_codes import say
from turngrid.records.resume import RlFolder
from turngrid.tasks.run import Run

Lines = Sequence[Mapping[str, Any]]
Watch = Callable[[Lines], None]  # takes the metrics of all steps so far, again after each step
FIRST = LAST = 3  # steps that are averaged at the start of a run, and before the present
Values = Sequence[float]
Check = Callable[[Values, float], str]


@dataclass(frozen=True)
class Alarm:
    """What was seen at a step, and what to try."""

    step: int
    name: str
    seen: str
    advice: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.name}: {self.seen}; {self.advice}"


@dataclass(frozen=True)
class Rule:
    """One alarm."""

    name: str  # also the key of its limit, ``health.NAME``
    metric: str
    check: Check  # (values of all steps so far, limit) -> what was seen; "" if all is well
    advice: str


# ---- conditions


def not_finite(values: Values, _: float) -> str:
    return "" if math.isfinite(values[-1]) else f"it is {values[-1]}"


def above(values: Values, limit: float) -> str:
    return f"{values[-1]:.3g} is above {limit:g}" if values[-1] > limit else ""


def above_median(values: Values, limit: float) -> str:
    """``limit`` times the median of the earlier steps, of which there must be ``FIRST``."""
    if len(values) <= FIRST or not (usual := median(values[:-1])):
        return ""
    return f"{values[-1]:.3g} is {values[-1] / usual:.0f} times its median" if values[-1] > limit * usual else ""


def _start_and_end(values: Values) -> tuple[float, float] | None:
    return (fmean(values[:FIRST]), fmean(values[-LAST:])) if len(values) >= FIRST + LAST else None


def grown(values: Values, limit: float) -> str:
    """``limit`` times the first steps' mean, and by more than a twentieth."""
    start, now = _start_and_end(values) or (1.0, 0.0)
    return f"it went from {start:.2g} to {now:.2g}" if now > limit * start and now > start + 0.05 else ""


def shrunk(values: Values, limit: float) -> str:
    start, now = _start_and_end(values) or (0.0, 0.0)
    return f"it went from {start:.2g} to {now:.2g}" if now < start / limit else ""


def fallen(values: Values, limit: float) -> str:
    """The mean of the last steps is lower than the best mean of as many by more than ``limit``."""
    if len(values) < 2 * LAST:
        return ""
    best = max(fmean(values[end - LAST : end]) for end in range(LAST, len(values) - LAST + 1))
    now = fmean(values[-LAST:])
    return f"{now:.0%} over the last {LAST} steps, {best:.0%} at its best" if now < best - limit else ""


# ---- the rules

LOWER_RATE = "try a third of actor_rollout_ref.actor.optim.lr"
RULES = (
    Rule("not_finite", "actor/grad_norm", not_finite, f"the update is lost; {LOWER_RATE}"),
    Rule("grad_norm", "actor/grad_norm", above_median, f"one batch moves the policy far; {LOWER_RATE}"),
    Rule("entropy_up", "rollout/entropy", grown, f"answers become random; {LOWER_RATE}"),
    Rule("entropy_down", "rollout/entropy", shrunk, f"answers hardly vary, so groups score alike; {LOWER_RATE}"),
    Rule("policy_kl", "actor/ppo_kl", above, f"the policy left the one that sampled within a step; {LOWER_RATE}"),
    Rule("clip_share", "actor/pg_clipfrac", above, f"most of the update is clipped; {LOWER_RATE}"),
    Rule(
        "mismatch",
        "verl/training/rollout_probs_diff_mean",
        above,
        "server and trainer disagree about log-probs; python -m train.doctor names the cause",
    ),
    Rule(
        "invalid_actions",
        "rollout/invalid_actions",
        grown,
        "an invalid action costs no reward; try 'shaping=[invalid_action]'",
    ),
    Rule(
        "unparsed_actions",
        "rollout/unparsed_actions",
        grown,
        "answers lose the form of prompt=; try 'shaping=[format]' or more env.max_action_tokens",
    ),
    Rule(
        "out_of_context",
        "rollout/out_of_context",
        above,
        "episodes end because their tokens do not fit; try a larger data.max_response_length, or env.window_turns",
    ),
    Rule(
        "success",
        "success/train",
        fallen,
        f"the policy forgets what it could; {LOWER_RATE}, and look at the alarms before this one",
    ),
)


def alarms(lines: Sequence[Mapping[str, Any]], limits: Mapping[str, float]) -> Iterator[Alarm]:
    """Yield the alarms of the last line.

    Args:
        lines: metrics of all steps so far, as ``metrics.jsonl`` has them.
        limits: by the names of ``RULES``; a rule without a limit is off.
    """
    for rule in RULES:
        if rule.metric not in lines[-1] or rule.name not in limits:
            continue
        values = [float(line[rule.metric]) for line in lines if rule.metric in line]
        seen, limit = rule.check(values, limits[rule.name]), limits[rule.name]
        if seen and not (len(values) > 1 and rule.check(values[:-1], limit)):
            yield Alarm(int(lines[-1]["step"]), rule.name, f"{rule.metric}: {seen}", rule.advice)


# ---- raising them


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
        limits: as ``alarms`` takes them.
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
