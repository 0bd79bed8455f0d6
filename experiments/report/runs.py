"""The data of a run that a report needs: state, settings, results, training metrics."""

import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from turngrid.experiments.evaluation.result import FILE as RESULT
from turngrid.experiments.evaluation.result import EvaluationResult, RunResult, State, state
from turngrid.records.files.json_lines import read_lines
from turngrid.records.health.alarms import SFT_ALARMS, Alarm, read_alarms
from turngrid.records.provenance import ATTEMPTS, Attempt, read_attempts
from turngrid.records.resume import RlFolder
from turngrid.records.run_folder import composed, flattened, read_failure

SUCCESS, EPISODES = "success/train", "rollout/episodes"

# Further metrics that are drawn -> title, unit. A name that ends in "/" stands for all names that
# begin with it.
SHOWN: Mapping[str, tuple[str, str]] = {
    "success/by_task/": ("success in", "share"),
    "success/by_type/": ("success in", "share"),
    "rollout/entropy": ("entropy", "nats a token"),
    "reasoning/mutual_information": ("mutual information", "nats"),
    "actor/ppo_kl": ("KL of the update", "nats a token"),
    "actor/kl_loss": ("KL to the first model", "nats a token"),
    "reward/kl_penalty": ("KL to the first model", "nats a token"),
    "rollout/turns": ("turns", "an episode"),
    "rollout/tokens_per_turn": ("action tokens", "a turn"),
    "rollout/thought_tokens": ("thought tokens", "a turn"),
    "rollout/response_tokens/mean": ("row length", "tokens"),
    "rollout/invalid_actions": ("not understood", "share of actions"),
    "rollout/unparsed_actions": ("without an action", "share of answers"),
    "credit/groups_without_signal": ("groups without signal", "share"),
    "credit/repeated_states": ("repeated states", "share of turns"),
    "filter/": ("filter", ""),
    "terms/": ("term", ""),
    "buffer/": ("buffer", ""),
    "replay/loss": ("replay: loss", ""),
}

LAST = "last"
NEEDS_KEY = re.compile(r"(?i)true|false|null|-|[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")  # values that say nothing alone
Key = TypeVar("Key", bound=Hashable)
SHOWN_LINES = 40  # lines of a failure's message that are shown


@dataclass(frozen=True)
class ReportedRun:
    """A run folder, or a run of a sweep that may not have started."""

    folder: Path  # its run folder, which may be missing
    coordinates: Mapping[str, str]  # axis -> value, without the seed
    seed: int
    state: State
    settings: Mapping[str, Any] = field(default_factory=dict)  # its config, flat: ``algo.name`` -> ``ppo``
    reason: str = ""  # why it is not finished, or ""
    result: RunResult | None = None
    attempts: Sequence[Attempt] = ()
    curve: pd.DataFrame = field(default_factory=pd.DataFrame, compare=False)  # plotted metrics by step
    alarms: Sequence[Alarm] = ()  # of RL
    sft_alarms: Sequence[Alarm] = ()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def rollbacks(self) -> Sequence[str]:
        """Return the lines of a finished run's rollbacks, which lowered its learning rate."""
        return self.result.notes.get("rollbacks", ()) if self.result else ()

    @cached_property
    def evaluations(self) -> Sequence[EvaluationResult]:
        """Return each model's result on each evaluation set at the first temperature."""
        matrix = self.result.matrix if self.result else ()
        return [evaluation for evaluation in matrix if evaluation.temperature == matrix[0].temperature]

    @property
    def evaluation_sets(self) -> list[tuple[str, str]]:
        """Return (environment, task) of every evaluation set, in the run's order."""
        return list(dict.fromkeys((evaluation.env, evaluation.task) for evaluation in self.evaluations))

    def stage(self, asked: str) -> str | None:
        """Return a stage's name, that of the last stage for ``last``; None if there is none."""
        names = [stage.name for stage in self.result.stages] if self.result else []
        if asked == LAST:
            return names[-1] if names else None
        return asked if asked in names else None

    def evaluation(self, stage: str, evaluation_set: str | None = None) -> EvaluationResult | None:
        """Return one result. ``evaluation_set``: a task or ``ENV/TASK``; None for the first one."""
        name = self.stage(stage)
        own = (evaluation for evaluation in self.evaluations if evaluation.policy == name)
        return next((one for one in own if evaluation_set in (None, one.task, f"{one.env}/{one.task}")), None)


def setting_names(runs: Sequence[ReportedRun], without: Sequence[str] = ()) -> list[str]:
    """Name each run's setting by its values on the axes that vary, except ``without``."""
    values = Counter(axis for axis, _ in {item for run in runs for item in run.coordinates.items()})
    shown = {axis for axis, count in values.items() if count > 1} - set(without)
    return [" ".join(value_name(*item) for item in run.coordinates.items() if item[0] in shown) for run in runs]


def value_name(axis: str, value: str) -> str:
    """Return a value as text; numbers and booleans get their key, as in ``lr=0.0001``."""
    return f"{axis.split('.')[-1]}={value}" if NEEDS_KEY.fullmatch(value) else value


def grouped(
    runs: Sequence[ReportedRun], without: Sequence[str] = (), nameless: str = ""
) -> dict[str, list[ReportedRun]]:
    """Group runs by the name of their setting."""
    names = {id(run): name for run, name in zip(runs, setting_names(runs, without), strict=True)}
    return group_by(runs, lambda run: names[id(run)] or nameless)


def group_by(runs: Sequence[ReportedRun], by: Callable[[ReportedRun], Key]) -> dict[Key, list[ReportedRun]]:
    """Group runs by equal ``by``, in order."""
    groups: dict[Key, list[ReportedRun]] = {}
    for run in runs:
        groups.setdefault(by(run), []).append(run)
    return groups


def except_axis(runs: Sequence[ReportedRun], axis: str) -> list[list[ReportedRun]]:
    """Group runs that differ on one axis only."""
    return [*group_by(runs, lambda run: tuple(item for item in run.coordinates.items() if item[0] != axis)).values()]


def task_axes(runs: Sequence[ReportedRun]) -> list[str]:
    """Return the axes along which the test games change while all other axes are fixed."""
    axes = dict.fromkeys(axis for run in runs for axis in run.coordinates)
    return [
        axis
        for axis in axes
        if any(len({tuple(run.evaluation_sets) for run in group}) > 1 for group in except_axis(runs, axis))
    ]


def read_run(folder: Path, coordinates: Mapping[str, str] | None = None, seed: int | None = None) -> ReportedRun:
    """Read a run folder; by default with the config's seed and without coordinates.

    Raises:
        Refusal: ``config.yaml`` is not YAML.
    """
    config = composed(folder)
    settings = dict(flattened(config)) if config else {}
    current = state(folder)
    curve = curve_of(read_lines(folder / "rl" / "metrics.jsonl"))
    return ReportedRun(
        folder=folder,
        coordinates=coordinates or {},
        seed=int(settings.get("seed", 0)) if seed is None else seed,
        state=current,
        settings=settings,
        reason=_reason(folder, current, curve),
        result=RunResult.read(folder) if current is State.FINISHED else None,
        attempts=read_attempts(folder / ATTEMPTS),
        curve=curve,
        alarms=read_alarms(RlFolder(folder)),
        sft_alarms=[Alarm(**line) for line in read_lines(folder / SFT_ALARMS)],
    )


def _reason(folder: Path, current: State, curve: pd.DataFrame) -> str:
    if current is State.FAILED:
        message = read_failure(folder).replace(f"{folder}/", "")
        return "\n".join(message.splitlines()[:SHOWN_LINES])
    if current is State.UNFINISHED and (folder / RESULT).exists():
        return f"{RESULT} cannot be read; the same command makes it again"
    if current is State.UNFINISHED:
        reached = f"after RL step {curve.index[-1]}" if len(curve) else "before its first RL step"
        files = [folder / name for name in (ATTEMPTS, "stages.jsonl", "rl/metrics.jsonl", "evaluation/.progress")]
        newest = max(path.stat().st_mtime for path in files if path.exists())
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(newest))
        return f"still at work, or killed, {reached}; last written {when}"
    return "no folder yet" if current is State.NOT_STARTED else ""


@cache
def family(name: str) -> str | None:
    """Return the entry of ``SHOWN`` that a metric belongs to; None if the metric is not drawn."""
    return next((key for key in SHOWN if name == key or (key.endswith("/") and name.startswith(key))), None)


def drawn(runs: Sequence[ReportedRun]) -> Iterator[tuple[str, str, str]]:
    """Yield name, title and unit of the metrics of ``SHOWN`` that the runs have, in its order."""
    names = sorted({name for run in runs for name in run.curve})
    for key, (title, unit) in SHOWN.items():
        for name in (name for name in names if family(name) == key):
            own = name.removeprefix(key).replace("/", " ").replace("_", " ")
            yield name, f"{title} {own}".rstrip(), unit


def curve_of(lines: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the plotted metrics by step, with ``EPISODES`` as a running total."""
    names = {"step", SUCCESS, EPISODES}
    rows = {  # by step: the last line of a repeated step counts
        line["step"]: {name: value for name, value in line.items() if name in names or family(name)}
        for line in lines
        if line.get(SUCCESS) is not None
    }
    if not rows:
        return pd.DataFrame()
    curve = pd.DataFrame(list(rows.values())).set_index("step").apply(pd.to_numeric, errors="coerce")
    curve[EPISODES] = curve.get(EPISODES, pd.Series(0.0, curve.index)).fillna(0).round().cumsum()
    return curve.dropna(axis="columns", how="all")
