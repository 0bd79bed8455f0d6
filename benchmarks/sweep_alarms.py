"""Alarms of healthy runs: those of every sweep at laptop scale, each setting with three seeds.

    python -m benchmarks.sweep_alarms                  # the table of the recorded runs
    python -m benchmarks.sweep_alarms run [SWEEP...]   # make the missing runs, minutes each

Runs end before their evaluation, since alarms read metrics of training. The first settings of all
sweeps come first. Each run adds a line to ``docs/sweep_alarms.jsonl``.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from turngrid.config.base import ROOT
from turngrid.envs.utils.parent import die_with_parent
from turngrid.experiments.sweep.definition import load
from turngrid.records.files.json_lines import append_line, read_lines
from turngrid.records.health.alarms import read_alarms
from turngrid.records.resume import RlFolder
from turngrid.tasks.run import Run
from turngrid.train.launch import one_run
from turngrid.train.launch.one_run import LaunchedRun
from turngrid.train.launch.sweep import prepare_launch

RESULTS = ROOT / "docs" / "sweep_alarms.jsonl"
WORK = Path(tempfile.gettempdir()) / "turngrid-sweep-alarms"
SEEDS = "seed=0,1,2"
AT_ONCE = 2


@dataclass(frozen=True)
class Planned:
    """A run of a sweep; its folder's name has a hash of all settings."""

    sweep: str
    label: str
    folder: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """A line of the results: the number of logged steps, and step, rule and text of each alarm."""

    sweep: str
    label: str
    folder: str
    steps: int
    alarms: list[tuple[int, str, str]]


def sweeps() -> list[str]:
    names = sorted(path.stem for path in (ROOT / "sweeps").glob("*.yaml"))
    return [name for name in names if "laptop" in load(name).scales]


def runs_of(sweep: str) -> list[Planned]:
    """Return the sweep's runs with RL, the seeds of a setting one after the other."""
    launch = prepare_launch([f"sweep={sweep}", SEEDS, f"output_dir={WORK}"])
    runs = [
        Planned(sweep, run.label, run.folder, tuple(one_run.command(LaunchedRun(1, tuple(run.overrides), run.label))))
        for run, config in zip(launch.sweep.runs, launch.configs, strict=True)
        if Run(config).allocation.steps
    ]
    return sorted(runs, key=lambda run: run.label.rpartition(" seed=")[0])


def outcomes() -> list[Outcome]:
    return [Outcome(**line) for line in read_lines(RESULTS)]


def missing(names: Sequence[str]) -> Iterator[Planned]:
    """Yield the runs without a result, a setting of each sweep in turn; sweeps may share a run."""
    known = {outcome.folder for outcome in outcomes()}
    by_setting: list[list[list[Planned]]] = []
    for name in tqdm(names, "composing", leave=False):
        settings = itertools.groupby(runs_of(name), key=lambda run: run.label.rpartition(" seed=")[0])
        by_setting.append([list(runs) for _, runs in settings])
    for settings in itertools.zip_longest(*by_setting, fillvalue=[]):
        for run in itertools.chain(*settings):
            if run.folder not in known:
                known.add(run.folder)
                yield run


def made(run: Planned) -> Outcome:
    """Make a run until its evaluation begins.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    folder = WORK / run.folder
    WORK.mkdir(exist_ok=True)
    with (WORK / f"{run.folder}.log").open("w") as log:
        process = subprocess.Popen(
            run.command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - the parent is this thread, which waits for the process
        )
        while process.poll() is None and not (folder / "evaluation").exists():
            time.sleep(1)
        process.terminate()
        if process.wait() and not (folder / "evaluation").exists():
            raise subprocess.CalledProcessError(process.returncode, run.command)
    rl = RlFolder(folder)
    alarms = [(alarm.step, alarm.name, alarm.seen) for alarm in read_alarms(rl)]
    return Outcome(run.sweep, run.label, run.folder, len(read_lines(rl.metrics)), alarms)


def make(names: Sequence[str]) -> None:
    def one(run: Planned) -> None:
        try:
            append_line(RESULTS, made(run))
        except subprocess.CalledProcessError as error:
            tqdm.write(f"{run.folder}: exit code {error.returncode}; see {WORK / run.folder}.log")
        bar.update()

    left = list(missing(names))
    with tqdm(total=len(left), unit="run") as bar, ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, left))


def table() -> str:
    """Return a line for each sweep; a rule is followed by the number of runs that raised it."""
    lines = ["| sweep | runs | with an alarm | rules |", "|---|---|---|---|"]
    by_sweep: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes():
        by_sweep[outcome.sweep].append(outcome)
    for sweep, runs in sorted(by_sweep.items()):
        raised = Counter(name for run in runs for name in {name for _, name, _ in run.alarms})
        rules = ", ".join(f"`{name}` {count}" for name, count in sorted(raised.items()))
        lines.append(f"| `{sweep}` | {len(runs)} | {sum(bool(run.alarms) for run in runs)} | {rules} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        make(sys.argv[2:] or sweeps())
    else:
        print(table())
