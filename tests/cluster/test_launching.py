"""Who starts runs, without SLURM: names, refusals, places, several runs at once."""

import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from cheap_jobs import TINY, front_door

from turngrid.config import machine
from turngrid.config.base import ROOT
from turngrid.config.compose import compose
from turngrid.experiments.cost_estimate import memory
from turngrid.tasks.schema import Slurm
from turngrid.train.app import main
from turngrid.train.launch import launching, one_run

LAUNCHED = ("slurm", "slurm_gpu1", "slurm_gpu8", "slurm_multinode", "local_parallel")


def test_the_page_has_every_key_and_option() -> None:
    page = (ROOT / "docs" / "slurm.md").read_text()
    table = page.split("| key of `cluster.slurm` |")[1].split("\n\n")[0]
    keys = [key for line in table.splitlines() for key in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(keys) == sorted(Slurm.__dataclass_fields__)
    options = re.findall(r"^\| `(\w+)` \|", page.split("| who starts runs |")[1].split("\n\n")[0], re.MULTILINE)
    assert sorted(options) == sorted(LAUNCHED)


SERVERS = "budget=rl_only trainer.v1.trainer_mode=separate_async actor_rollout_ref.rollout.nnodes=1"
SERVERS += " rollout=vllm model=qwen2.5_1.5b actor_rollout_ref.rollout.checkpoint_engine.backend=nccl"
REFUSED = {
    "cluster.slurm.signal_delay_s=3600 cluster.slurm.timeout_min=60": "must be less than cluster.slurm.timeout_min=60",
    "cluster.slurm.nodes=2": "cluster=slurm_multinode",
    "cluster=slurm_gpu8 cluster.slurm.nodes=2 budget=rl_only": "on 1; use cluster=slurm_multinode trainer.nnodes=2",
    f"cluster=slurm_gpu8 cluster.slurm.nodes=2 {SERVERS}": "on 1; use cluster=slurm_multinode trainer.nnodes=2",
    f"cluster=slurm_multinode {SERVERS}": "on 3; use cluster.slurm.nodes=3",
    f"cluster=slurm_gpu8 trainer.n_gpus_per_node=4 {SERVERS}": "use cluster.slurm.gpus_per_node=8",
    "cluster=slurm_gpu8 cluster.slurm.gpus_per_node=4 budget=rl_only": "use cluster.slurm.gpus_per_node=8",
    "cluster.slurm.mem_gb=4": "what fits: cluster.slurm.mem_gb=5",
    "cluster.slurm.additional_parameters=x": "use cluster.slurm.additional_parameters={mail-type: FAIL}",
    "-m cluster.slurm.partion=x": "use cluster.slurm.partition",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_launched_is_refused_in_one_line(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("sbatch", "srun"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 9\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["cluster=slurm", *words.split(), f"output_dir={tmp_path / 'runs'}"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert REFUSED[words] in line
    assert not (tmp_path / "runs").exists()


def test_without_slurm_nothing_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["cluster=slurm", f"output_dir={tmp_path / 'runs'}"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "no sbatch" in line and "login node" in line
    assert main(["cluster=slurm", "estimate=true"]) == 0, "an estimate is made here"


def test_each_run_has_gpus_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: 5)  # this machine may have none
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    two_each = compose(["cluster=slurm_gpu8", "trainer.n_gpus_per_node=2"])
    assert launching.devices([two_each]) == ["0,1", "2,3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,6,5,4,3")
    two_each.cluster.runs_at_once = 1
    assert launching.devices([two_each]) == ["7,6"]
    on_cpus = compose(["cluster=local_parallel", "cluster.runs_at_once=3"])
    assert launching.devices([on_cpus]) == [None, None, None]
    on_cpus.cluster.runs_at_once = None
    monkeypatch.setattr(memory, "memory_here", lambda config: 9e9)
    monkeypatch.setattr(launching.os, "sched_getaffinity", lambda process: range(16))
    assert launching.devices([on_cpus]) == [None, None], "8 for the cores, of which 2 fit into memory"


MEETS = 'touch "$0"; for i in $(seq 1000); do [ -e "$1" ] && exit 0; sleep 0.1; done; exit 1'


def test_as_many_runs_go_at_once_as_there_are_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other: the first fails if the second starts after its end."""
    places = [str(tmp_path / "even"), str(tmp_path / "odd")]
    meeting = {1: ["sh", "-c", MEETS, *places], 2: ["sh", "-c", MEETS, *reversed(places)]}
    monkeypatch.setattr(launching, "command", lambda run, _: meeting[run.number])
    runs = [one_run.LaunchedRun(number, (f"seed={number}",), f"seed={number}") for number in (1, 2)]
    assert launching.run_all(tmp_path, [None, None], runs) == []


def test_ctrl_c_ends_the_runs_at_work_and_starts_no_more(tmp_path: Path) -> None:
    one_by_one = ("-m", "seed=0,1", *TINY, "cluster=local_parallel", "cluster.runs_at_once=1", "output_dir=runs")
    launch = front_door(*one_by_one, cwd=tmp_path)
    next(line for line in iter(launch.stderr.readline, "") if "run 1 starts: seed=0" in line)
    end = time.monotonic() + 60
    while not (runs := psutil.Process(launch.pid).children()) and time.monotonic() < end:
        time.sleep(0.05)
    launch.send_signal(signal.SIGINT)
    assert launch.wait(timeout=200) == 130
    _, alive = psutil.wait_procs(runs, timeout=60)  # until its new parent, init, reaps it
    assert len(runs) == 1 and not alive
    assert [log.name for log in (tmp_path / "runs" / "local_parallel").glob("*/*.log")] == ["1.log"]


@pytest.mark.parametrize(("words", "lines"), [(["seed=0"], []), (["-m", "seed=0,1,2"], ["--array=0-2%3"])])
def test_a_dry_run_shows_the_script_for_sbatch(
    words: list[str],
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """For one run and for several, on a machine without SLURM too."""
    monkeypatch.setenv("PATH", str(tmp_path))
    runs = tmp_path / "runs"
    own = [f"output_dir={runs}", "cluster.slurm.partition=x", "cluster.slurm.setup=[module load cuda]"]
    assert main([*words, "cluster=slurm", *own, "dry_run=true"]) == 0
    out = capfd.readouterr().out
    shown = out.splitlines()
    asked = ["--partition=x", "--cpus-per-task=2", "--mem=8GB", "--time=1440", *lines]
    assert [line for line in asked if f"#SBATCH {line}" not in shown] == []
    assert "module load cuda" in shown and shown[-1].endswith(f"submitit.core._submit {runs}/slurm")
    assert f"{len(lines) * 2 + 1} run" in out and not runs.exists()
