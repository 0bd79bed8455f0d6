"""This checkout's run beside another commit's, in turns: wall and CPU seconds of a step, start,
peak memory, and their ratios.

    python -m benchmarks.against COMMIT [--rounds 3] [--out FILE] [KEY=VALUE ...]

The commit is checked out into a temporary folder and run by this environment's Python, so it needs
the same dependencies. A round is one run of each, the order changing from round to round, after one
of each that only makes their games. A figure is the median over the rounds. CPU seconds are those
of all processes of a run, and of each kind of process in a later step; memory is the proportional
set size (PSS) summed over all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil
from tqdm import tqdm

from benchmarks.checkouts import ROOT, checked_out, import_variables, is_package
from benchmarks.memory import GIB, family, pss

SAMPLE_SECONDS = 0.1
SAMPLES_A_PSS = 10  # reading it takes about 10 ms of CPU a process
SHORT = ("budget=rl_only", "budget.rl_steps=4", "eval.games=1")
UNITS = {"start": "s", "start_cpu": "s", "step": "s", "step_cpu": "s", "peak": "GiB"}
NAMES = {
    "start": "start to the end of step 1",
    "start_cpu": "  CPU of all processes",
    "step": "a later step (median)",
    "step_cpu": "  CPU of all processes",
    "peak": "peak memory (PSS)",
}
PARTS = {  # kinds of processes, by what their command lines say: Ray writes an actor's class there
    "rollout server": "TransformersServer",
    "agent loop": "AgentShell|AgentLoopWorker",
    "environments": r"envs\.(\w+\.)?worker",
    "transfer queue": "Queue|SimpleStorage",
    "actor": "WorkerDict",
}
REST = "driver and Ray"


@dataclass(frozen=True)
class Figures:
    """Figures of one run: seconds, and GiB."""

    start: float
    start_cpu: float
    step: float
    step_cpu: float
    peak: float
    parts: dict[str, float]  # CPU of a later step by kind of process, a median for each: they need not sum to step_cpu


def kind(process: psutil.Process) -> str:
    """Return the kind of a process, of ``PARTS``.

    Raises:
        psutil.Error: the process has just ended.
    """
    line = " ".join(process.cmdline())
    return next((name for name, mark in PARTS.items() if re.search(mark, line)), REST)


class Watched:
    """The processes of a run, with their CPU seconds and their most memory at once.

    Processes that ended count as last seen.
    """

    def __init__(self, pid: int) -> None:
        self.root = psutil.Process(pid)
        self.cpu: dict[tuple[int, float], tuple[str, float]] = {}
        self.peak = 0.0
        self.samples = itertools.count()

    def sample(self) -> float:
        """Return the CPU seconds so far."""
        members = family(self.root)
        for process in members:
            try:
                times = process.cpu_times()
                self.cpu[process.pid, process.create_time()] = kind(process), times.user + times.system
            except psutil.Error:
                continue  # it has just ended
        if next(self.samples) % SAMPLES_A_PSS == 0:
            self.peak = max(self.peak, sum(map(pss, members)) / GIB)
        return sum(seconds for _, seconds in self.cpu.values())

    def parts(self) -> dict[str, float]:
        """Return the CPU seconds of each kind of process at the last sample."""
        seconds = dict.fromkeys([*PARTS, REST], 0.0)
        for name, cpu in self.cpu.values():
            seconds[name] += cpu
        return seconds


def lines(output: Path) -> int:
    """Return the number of steps that the one run in this folder has logged."""
    files = list(output.glob("*/rl/metrics.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


def cache_variables(checkout: Path) -> dict[str, str]:
    """Return a cache of its own for another commit, which may not read the records of ours."""
    return {} if checkout == ROOT else {"TURNGRID_CACHE": str(checkout.parent / "cache")}


@dataclass(frozen=True)
class StepEnd:
    """Seconds since the run's beginning, and CPU seconds so far of each kind of process."""

    at: float
    cpu: dict[str, float]


def watch(process: subprocess.Popen[bytes], watched: Watched, output: Path) -> list[StepEnd]:
    """Sample a run until it ends; return the ends of its steps."""
    begin, ends = time.perf_counter(), []
    while process.poll() is None:
        watched.sample()
        if lines(output) > len(ends):
            ends.append(StepEnd(time.perf_counter() - begin, watched.parts()))
        time.sleep(SAMPLE_SECONDS)
    return ends


def summary(ends: list[StepEnd], peak: float) -> Figures:
    pairs = list(itertools.pairwise(ends))
    step = median(after.at - before.at for before, after in pairs)
    step_cpu = median(sum(after.cpu.values()) - sum(before.cpu.values()) for before, after in pairs)
    parts = {name: median(after.cpu[name] - before.cpu[name] for before, after in pairs) for name in ends[0].cpu}
    return Figures(ends[0].at, sum(ends[0].cpu.values()), step, step_cpu, peak, parts)


def measured(checkout: Path, overrides: list[str]) -> Figures:
    """Return the figures of one run.

    Raises:
        SystemExit: the run fails.
    """
    module = "turngrid.train" if is_package(checkout) else "train"
    with tempfile.TemporaryDirectory() as output, import_variables(checkout) as imports:
        command = [sys.executable, "-m", module, f"output_dir={output}", *SHORT, *overrides]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        variables = os.environ | imports | cache_variables(checkout)
        process = subprocess.Popen(command, cwd=checkout, env=variables, **quiet)
        watched = Watched(process.pid)
        ends = watch(process, watched, Path(output))
    if process.returncode or len(ends) < 2:
        sys.exit(f"the run in {checkout} ended with exit code {process.returncode} after {len(ends)} steps: {command}")
    return summary(ends, watched.peak)


def compared(other: Path, rounds: int, overrides: list[str]) -> dict[str, list[Figures]]:
    """Return the figures of both commits' runs, without the first run of each."""
    places, runs = {"this": ROOT, "other": other}, {"this": [], "other": []}
    with tqdm(total=2 * (rounds + 1), unit="run") as bar:
        for number in range(rounds + 1):
            for name in sorted(places, reverse=bool(number % 2)):
                runs[name].append(measured(places[name], overrides))
                bar.update()
    return {name: figures[1:] for name, figures in runs.items()}


def row(name: str, unit: str, values: dict[str, list[float]]) -> str:
    ours, theirs = median(values["this"]), median(values["other"])
    return f"{name:30}{ours:8.2f} {unit:3}{theirs:6.2f} {unit:3}{ours / theirs:6.2f}"


def table(runs: dict[str, list[Figures]]) -> str:
    rows = [f"{'':30}{'this':>10}{'other':>10}{'ratio':>8}"]
    for name, unit in UNITS.items():
        rows.append(row(NAMES[name], unit, {side: [getattr(one, name) for one in runs[side]] for side in runs}))
    rows.append("CPU of a later step")
    for name in (*PARTS, REST):
        rows.append(row(f"  {name}", "s", {side: [one.parts[name] for one in runs[side]] for side in runs}))
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="what this checkout is compared with")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each")
    parser.add_argument("--out", type=Path, help="write the figures of every run as JSON")
    options, overrides = parser.parse_known_args()
    with checked_out(options.commit) as other:
        runs = compared(other, options.rounds, overrides)
    print(table(runs))
    if options.out:
        figures = {name: [asdict(one) for one in figures] for name, figures in runs.items()}
        options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
