"""This checkout's run beside another commit's, in turns: wall and CPU seconds of a step, start, peak memory, and their ratios.

    python -m benchmarks.against COMMIT [--rounds 3] [--out FILE] [KEY=VALUE ...]

The commit is checked out into a temporary folder and run by this environment's Python, so it needs the same
dependencies. A round is one run of each, the order changing from round to round, after one of each that only makes
their games. A figure is the median over the rounds. CPU seconds are those of all processes of a run; memory is the
proportional set size (PSS) summed over them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import psutil
from tqdm import tqdm

from benchmarks.memory import GIB, family, pss

ROOT = Path(__file__).parents[1]
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


@dataclass(frozen=True)
class Figures:
    """Of one run: seconds, and GiB."""

    start: float
    start_cpu: float
    step: float
    step_cpu: float
    peak: float


class Watched:
    """A run's processes: CPU seconds so far, those that ended included as last seen, and the most memory at once."""

    def __init__(self, pid: int) -> None:
        self.root = psutil.Process(pid)
        self.cpu: dict[tuple[int, float], float] = {}
        self.peak = 0.0
        self.samples = itertools.count()

    def sample(self) -> float:
        """CPU seconds so far."""
        members = family(self.root)
        for process in members:
            try:
                times = process.cpu_times()
                self.cpu[process.pid, process.create_time()] = times.user + times.system
            except psutil.Error:
                continue  # it has just ended
        if next(self.samples) % SAMPLES_A_PSS == 0:
            self.peak = max(self.peak, sum(map(pss, members)) / GIB)
        return sum(self.cpu.values())


def lines(output: Path) -> int:
    """Steps that the one run in this folder has logged."""
    files = list(output.glob("*/rl/metrics.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0


def variables(checkout: Path) -> dict[str, str]:
    """Another commit has games of its own, since it may not read the records of ours."""
    cache = {} if checkout == ROOT else {"TURNGRID_CACHE": str(checkout.parent / "cache")}
    return {"PYTHONPATH": str(checkout), **cache}


def measured(checkout: Path, overrides: list[str]) -> Figures:
    """Raises SystemExit where the run fails."""
    with tempfile.TemporaryDirectory() as output:
        command = [sys.executable, "-m", "train", f"output_dir={output}", *SHORT, *overrides]
        begin = time.perf_counter()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=checkout, env=os.environ | variables(checkout), **quiet)
        watched = Watched(process.pid)
        ends: list[tuple[float, float]] = []
        while process.poll() is None:
            cpu = watched.sample()
            if lines(Path(output)) > len(ends):
                ends.append((time.perf_counter() - begin, cpu))
            time.sleep(SAMPLE_SECONDS)
    if process.returncode or len(ends) < 2:
        sys.exit(f"the run in {checkout} ended with exit code {process.returncode} after {len(ends)} steps: {command}")
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in itertools.pairwise(ends)]
    return Figures(*ends[0], median(wall for wall, _ in steps), median(cpu for _, cpu in steps), watched.peak)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkout"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", place, commit], check=True)
        try:
            yield place
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", place], check=True)


def compared(other: Path, rounds: int, overrides: list[str]) -> dict[str, list[Figures]]:
    """Runs of both, the first of each being thrown away."""
    places, runs = {"this": ROOT, "other": other}, {"this": [], "other": []}
    with tqdm(total=2 * (rounds + 1), unit="run") as bar:
        for number in range(rounds + 1):
            for name in sorted(places, reverse=bool(number % 2)):
                runs[name].append(measured(places[name], overrides))
                bar.update()
    return {name: figures[1:] for name, figures in runs.items()}


def table(runs: dict[str, list[Figures]]) -> str:
    rows = [f"{'':30}{'this':>10}{'other':>10}{'ratio':>8}"]
    for name, unit in UNITS.items():
        ours, theirs = (median(getattr(one, name) for one in runs[side]) for side in ("this", "other"))
        rows.append(f"{NAMES[name]:30}{ours:8.2f} {unit:3}{theirs:6.2f} {unit:3}{ours / theirs:6.2f}")
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
