"""Does it learn? Whole runs through the front door, several seeds, then success by stage over the
seeds.

    python benchmarks/learning.py --seeds 0,1,2  # the default: SFT, then RL
    python benchmarks/learning.py --seeds 0,1,2 budget=rl_only algo=ppo  # RL from the base model

Anything after the options goes to ``python -m train``. Every stage is evaluated as a run evaluates
it: last checkpoint, the test evaluation set, temperature 0.4. Finished runs are not repeated.
Prints percentages with a 95 % interval: a bootstrap over games, each with all of its seeds; gains
are paired by game.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from turngrid.config.compose import compose
from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.evaluation.stage import played
from turngrid.records.run_folder import run_name
from turngrid.records.statistics import Interval, mean_interval

ORDER = ("base", "sft", "rl")


def run(overrides: list[str], output: Path) -> Path:
    """Run training to its end; return the folder."""
    settings = [*overrides, f"output_dir={output}"]
    folder = output / run_name(compose(settings))
    if RunResult.read(folder) is None:
        print(f"$ python -m train {' '.join(settings)}", flush=True)
        subprocess.run([sys.executable, "-m", "turngrid.train", *settings], check=True)
    return folder


def wins(folders: list[Path], stage: str) -> list[list[float]]:
    """Return the wins: one row for each seed, one column for each game."""
    return [[float(episode.won) for episode in played(folder, stage)] for folder in folders]


def summary(folders: list[Path]) -> dict[str, Interval]:
    """Return the success of each stage, and its gain over the stage before."""
    result = RunResult.read(folders[0])
    assert result is not None
    stages = [name for name in ORDER if result.stage(name)]
    rates = {name: mean_interval(np.mean(wins(folders, name), axis=0)) for name in stages}
    gains = {
        f"{after} - {before}": mean_interval(
            np.mean(wins(folders, after), axis=0) - np.mean(wins(folders, before), axis=0), lowest=-1.0
        )
        for before, after in itertools.pairwise(stages)
    }
    return rates | gains


def table(name: str, seeds: list[int], folders: list[Path], numbers: dict[str, Interval]) -> Table:
    grid = Table(title=f"{name}, seeds {', '.join(map(str, seeds))}", title_justify="left")
    grid.add_column("stage")
    grid.add_column("success %, mean over seeds [95 % interval]", justify="right")
    for seed in seeds:
        grid.add_column(f"seed {seed} %", justify="right")
    for stage, interval in numbers.items():
        grid.add_row(stage, interval.percent(), *(_of_seed(folder, stage) for folder in folders))
    return grid


def _of_seed(folder: Path, stage: str) -> str:
    result = RunResult.read(folder)
    found = result.stage(stage) if result else None
    return f"{100 * found.interval.mean:.1f}" if found else ""


def numbers_of(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=numbers_of, default=[0, 1, 2], help="such as 0,1,2")
    parser.add_argument("--output", type=Path, default=Path("runs"))
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    options, overrides = parser.parse_known_args()
    folders = [run([*overrides, f"seed={seed}"], options.output) for seed in options.seeds]
    numbers = summary(folders)
    name = " ".join(overrides) or "the default run"
    Console().print(table(name, options.seeds, folders, numbers))
    if options.out:
        content = {stage: vars(interval) for stage, interval in numbers.items()}
        options.out.write_text(json.dumps({"overrides": overrides, "seeds": options.seeds, **content}, indent=2) + "\n")


if __name__ == "__main__":
    main()
