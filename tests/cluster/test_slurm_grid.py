"""What SLURM is for, with real runs: a sweep from launch to report, and a run that its time limit
breaks off."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import small
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


STEPS, SAVED_EVERY, BROKEN_OFF = 10, 4, 6
LEARNING = (  # 60 demonstrations, so that some of the episodes of most steps are won
    "budget.units=100",
    "budget.demo_cost=1",
    "budget.sft_share=0.6",
    f"budget.rl_steps={STEPS}",
    f"trainer.save_freq={SAVED_EVERY}",
    "env.max_turns=12",
)


def test_a_run_that_its_time_limit_breaks_off_ends_as_an_unbroken_one(slurm: SmallSlurm, tmp_path: Path) -> None:
    job = ("cluster=slurm", "cluster.slurm.timeout_min=600", "cluster.slurm.signal_delay_s=60")
    output = tmp_path / "broken"
    process = front_door(*small.OVERRIDES, *LEARNING, *job, f"output_dir={output}", cwd=tmp_path)
    small.wait_for(lambda: steps_logged(output) >= BROKEN_OFF, 1800)
    hold(output)
    (job_id,) = slurm.command("squeue", "-h", "-o", "%A").split()
    end_soon(slurm, job_id)
    small.wait_for(lambda: slurm.command("squeue", "-h", "-j", job_id, "-o", "%r").strip() == "BeginTime", 300)
    assert steps_logged(output) < STEPS and steps_logged(output) % SAVED_EVERY, "broken off where it shows nothing"
    slurm.hurry(job_id)
    _, err = process.communicate(timeout=2400)
    assert process.returncode == 0, err
    (broken,) = output.glob("textworld-*")
    assert len(small.lines(broken / "attempts.jsonl")) == 2
    unbroken = small.finish(tmp_path / "unbroken", *LEARNING, timeout_s=2400)
    assert broken.name == unbroken.name
    assert_same(broken, unbroken)
    metrics = small.lines(broken / "rl" / "metrics.jsonl")
    assert any(line["success/train"] > 0 and line["actor/grad_norm"] > 0 for line in metrics[SAVED_EVERY:])


def hold(output: Path) -> None:
    """So that it does not end in the half minute that SLURM may take to see that a job's time is
    up."""
    trainers = [
        p for p in psutil.process_iter(["cmdline"]) if {"turngrid.verl_plugin.rl"} & set(p.info["cmdline"] or [])
    ]
    (trainer,) = [p for p in trainers if str(output) in p.info["cmdline"][-1]]
    trainer.suspend()


def end_soon(slurm: SmallSlurm, job_id: str) -> None:
    """Its limit becomes the next full minute, which is within the signal's delay."""
    (start,) = slurm.command("squeue", "-h", "-j", job_id, "-o", "%S").split()
    minutes = (time.time() - time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S"))) / 60
    slurm.command("scontrol", "update", f"JobId={job_id}", f"TimeLimit={int(minutes) + 1}")


def steps_logged(output: Path) -> int:
    files = list(output.glob("*/rl/metrics.jsonl"))
    return len(files[0].read_text().splitlines()) if files else 0


def assert_same(folder: Path, unbroken: Path) -> None:
    """Token ids, rewards and outcomes of every step, of which masks and rows are made; each step
    once."""
    for step in range(1, STEPS + 1):
        name = f"rl/episodes/{step:06d}.jsonl"
        assert small.without_clocks(folder / name) == small.without_clocks(unbroken / name), name
    assert [line["step"] for line in small.lines(folder / "rl" / "metrics.jsonl")] == list(range(1, STEPS + 1))
    ours, theirs = (json.loads((run / "result.json").read_text()) for run in (folder, unbroken))
    assert [stage["successes"] for stage in ours["stages"]] == [stage["successes"] for stage in theirs["stages"]]
