"""Time that the report of a large sweep takes, and size of its page.

    python -m benchmarks.report
    python -m benchmarks.report --seeds 3 --keep /tmp/sweep

The default sweep has 4 algorithms x 5 tasks x 10 seeds = 200 runs, in a temporary folder.

The runs are synthetic but of real size: 25 training steps, two models with 200 test games each,
episodes of 10 turns (about 4 kB a game), verl's whole config. Only the report itself is timed, in a
process of its own.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from benchmarks.synthetic_runs import make_run
from turngrid.config.compose import composer
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import Layout, Takeaway
from turngrid.experiments.sweep.record import Sweep, SweepRun

ALGOS = ("ppo", "grpo", "rloo", "reinforce_plus_plus")
TASKS = ("w2-o3-q4", "w2-o6-q4", "w4-o3-q4", "w4-o6-q4", "w4-o6-q8")
STEPS, GAMES, TURNS = 25, 200, 10
LIMIT_SECONDS, LIMIT_MB = 20, 10


def make(output: Path, seeds: int) -> Path:
    """Write the runs and the sweep's record; return the sweep's folder."""
    generator = np.random.default_rng(0)
    runs = []
    for (algo, task), config in _configs().items():
        for seed in range(seeds):
            folder = f"{task}-{algo}-s{seed}"
            skill = 0.2 + 0.1 * ALGOS.index(algo) + generator.normal(0, 0.04) - 0.03 * TASKS.index(task)
            base = np.random.default_rng(7).random(GAMES) < 0.12
            wins = {
                "base": {task: base.astype(int).tolist()},
                "rl": {task: (generator.random(GAMES) < skill).astype(int)},
            }
            curve = (skill * np.linspace(0.3, 1, STEPS) + generator.normal(0, 0.03, STEPS)).clip(0, 1).tolist()
            make_run(output / folder, wins, seed, config, curve, TURNS)
            runs.append(SweepRun({"task": task, "algo": algo}, seed, [f"algo={algo}", f"env.task={task}"], folder))
    return record.write(_sweep(runs), output)


def _configs() -> dict[tuple[str, str], dict[str, Any]]:
    with composer() as compose:
        return {
            (algo, task): OmegaConf.to_container(compose([f"algo={algo}", f"env.task={task}"]), resolve=True)
            for algo, task in itertools.product(ALGOS, TASKS)
        }  # type: ignore[return-value]


def _sweep(runs: list[SweepRun]) -> Sweep:
    columns = {"base": {"stage": "base"}, **{algo: {"algo": algo, "stage": "rl"} for algo in ALGOS}}
    claim = Takeaway("PPO reaches more than GRPO", {"algo": "ppo", "stage": "rl"}, {"algo": "grpo", "stage": "rl"})
    return Sweep(
        name="synthetic",
        scale="laptop",
        title="Synthetic runs",
        question="How fast is the report?",
        published=None,
        note="Chance alone made these figures.",
        layout=Layout(rows={task: {"task": task} for task in TASKS}, columns=columns),
        takeaways=(claim,),
        extra=[],
        runs=runs,
    )


def measure(folder: Path) -> tuple[float, float, float]:
    """Return wall and processor seconds of the command, start of Python included, and the page's
    size in MB."""
    start, before = time.perf_counter(), _processor_seconds()
    subprocess.run([sys.executable, "-m", "turngrid.experiments.report", str(folder)], check=True)
    wall, busy = time.perf_counter() - start, _processor_seconds() - before
    return wall, busy, (folder / "report.html").stat().st_size / 1e6


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="make the runs here and leave them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sweep = make(options.keep or Path(folder), options.seeds)
        size = sum(path.stat().st_size for path in sweep.parents[1].rglob("*") if path.is_file()) / 1e6
        wall, busy, megabytes = measure(sweep)
    runs = options.seeds * len(ALGOS) * len(TASKS)
    print(f"{runs} runs ({size:.0f} MB): {wall:.1f} s by the clock, at most {LIMIT_SECONDS}; {busy:.1f} s of processor")
    print(f"page {megabytes:.2f} MB, at most {LIMIT_MB}")


if __name__ == "__main__":
    main()
