"""What SLURM is for, with real runs: a sweep from launch to report."""

import subprocess
import sys
from pathlib import Path

import pytest
from cheap_jobs import front_door
from small_slurm import SmallSlurm

from turngrid.config.base import ROOT
from turngrid.experiments.sweep.record import folder_of
from turngrid.train.launch.sweep import prepare_launch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(5400)]

SWEEP = """
title: Six runs
question: Does one failure leave the other five?
scales:
  laptop:
    note: imitation of four demonstrations, and four test games
    seeds: [0, 1, 2]
    overrides: [model=tiny, budget=sft_only, budget.units=40, eval.games=4, env.max_turns=6]
    axes:
      epochs: {one: [], two: [model.sft.epochs=2]}
    layout:
      rows: {one epoch: {epochs: one}, two epochs: {epochs: two}}
      columns: {base: {stage: base}, sft: {stage: sft}}
"""


def launch(*arguments: str, cwd: Path, seconds: float = 2400) -> tuple[int, str]:
    process = front_door(*arguments, cwd=cwd)
    _, err = process.communicate(timeout=seconds)
    return process.returncode, err


def test_a_sweep_of_six_runs_from_launch_to_report(slurm: SmallSlurm, tmp_path: Path) -> None:
    """Something lies in the way of one run's SFT. Once it is gone, the same command runs that one
    alone."""
    (tmp_path / "six.yaml").write_text(SWEEP)
    arguments = (
        "sweep=six.yaml",
        "cluster=slurm",
        "cluster.slurm.array_parallelism=2",
        f"output_dir={tmp_path / 'runs'}",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        planned = prepare_launch(arguments)
    unlucky = planned.sweep.runs[3]
    obstacle = tmp_path / "runs" / unlucky.folder / "sft"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("in the way")
    code, err = launch("-m", *arguments, cwd=tmp_path)
    assert code == 1, err
    assert ": 6 runs, " in err
    failed = [line for line in err.splitlines() if line.startswith("turngrid: failed: ")]
    assert len(failed) == 1 and failed[0].startswith(f"turngrid: failed: {unlucky.label} (")
    finished = [run for run in planned.sweep.runs if (tmp_path / "runs" / run.folder / "result.json").exists()]
    assert [run.label for run in finished] == [run.label for run in planned.sweep.runs if run != unlucky]
    report = reported(folder_of(planned.sweep, tmp_path / "runs"))
    assert "5 finished, 1 failed of 6 runs" in report
    named = f"| {' '.join(unlucky.coordinates.values())} seed {unlucky.seed} | failed |"
    assert [line for line in report.splitlines() if line.startswith(named)]
    obstacle.unlink()
    code, err = launch("-m", *arguments, cwd=tmp_path)
    assert code == 0, err
    assert "1 runs to go, 5 finished" in err
    report = reported(folder_of(planned.sweep, tmp_path / "runs"))
    assert "6 finished of 6 runs" in report and "| failed |" not in report


def reported(folder: Path) -> str:
    command = [sys.executable, "-m", "turngrid.experiments.report", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return (folder / "report.md").read_text()
