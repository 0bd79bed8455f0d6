"""A whole run, small enough for a test: 4 demonstrations, 3 RL steps of 4 games x 4 samples, 8 test games."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

OVERRIDES = (
    "budget.units=16",
    "budget.demo_cost=2",
    "budget.sft_share=0.5",
    "budget.rl_steps=3",
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "trainer.save_freq=1",
    "eval.games=8",
    "env.max_turns=6",
)
CLOCKS = ("act_seconds", "env_seconds")


def command(output: Path, *overrides: str) -> list[str]:
    return [sys.executable, "-m", "train", f"output_dir={output}", *OVERRIDES, *overrides]


def launch(output: Path, *overrides: str) -> subprocess.Popen[str]:
    """Start the front door in a session of its own, as a shell would."""
    output.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        command(output, *overrides),
        cwd=Path(__file__).resolve().parents[2],
        stdout=(output / "stdout.txt").open("w"),
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        start_new_session=True,
    )


def finish(output: Path, *overrides: str, timeout_s: float = 500) -> Path:
    """Run to the end and return the run folder."""
    process = launch(output, *overrides)
    assert process.wait(timeout=timeout_s) == 0, (output / "stdout.txt").read_text()[-3000:]
    return run_folder(output)


def run_folder(output: Path) -> Path:
    (folder,) = [path for path in output.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return folder


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_clocks(path: Path) -> list[dict]:
    """Episodes as they were played, whatever time it took."""
    episodes = lines(path)
    for episode in episodes:
        for turn in episode["turns"]:
            for clock in CLOCKS:
                turn.pop(clock)
    return episodes


def comparable(metrics: Sequence[dict]) -> list[dict]:
    """Metrics that a repetition must reproduce: no times, no memory, no throughput."""
    machine = ("timing", "perf/", "global_seqlen")
    return [{key: value for key, value in line.items() if not any(word in key for word in machine)} for line in metrics]
