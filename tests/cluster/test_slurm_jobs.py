"""Jobs on a real SLURM, some with commands in the place of runs: these are submitted first and
looked at last, since SLURM takes its time over time limits."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import submitit
from cheap_jobs import TINY, front_door, launched, python, settings
from finished_run import finished
from small_slurm import SmallSlurm

from turngrid.config.compose import compose
from turngrid.records.run_folder import run_name
from turngrid.train.app import main
from turngrid.train.launch.slurm import Jobs, wait

AT_WORK = """
import sys, time
from pathlib import Path
start = time.time()
time.sleep(1)
with Path(sys.argv[1]).open("a") as file:
    file.write(f"{start} {time.time()}\\n")
sys.exit(int(sys.argv[2]))
"""
STUCK_AT_FIRST = """
import sys, time
from pathlib import Path
attempts = Path(sys.argv[1])
with attempts.open("a") as file:
    file.write(" ".join(["started", *sys.argv[2:]]) + "\\n")
if len(attempts.read_text().splitlines()) == 1:
    time.sleep(600)
"""
NO_RESULT = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"  # submitit can write nothing any more
# SLURM warns up to 30 s early, and a job does not hear it before its imports have ended
SHORT = ("cluster.slurm.timeout_min=1", "cluster.slurm.signal_delay_s=5")
pytestmark = pytest.mark.timeout(1500)


@dataclass
class Fates:
    """What became of the cheap jobs, by the label of the run."""

    folder: Path
    jobs: dict[str, submitit.Job[int]]
    failures: dict[str, str]


@pytest.fixture(scope="module", autouse=True)
def cheap(slurm: SmallSlurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Jobs]]:
    folder = tmp_path_factory.mktemp("cheap")
    array = {f"array-{code}-{i}": python(AT_WORK, folder / "clock", code) for i, code in enumerate((0, 3, 0))}
    place = folder / "slurm"
    jobs = launched(place, settings(*SHORT), {"again": python(STUCK_AT_FIRST, folder / "again")})
    once = settings(*SHORT, "cluster.slurm.max_num_timeout=0")
    jobs |= launched(place, once, {"too often": python(STUCK_AT_FIRST, folder / "too often")})
    jobs |= launched(place, settings("cluster.slurm.array_parallelism=2"), array)
    jobs |= launched(place, settings(), {"cancelled": python("import time; time.sleep(600)")})
    jobs |= launched(place, settings(), {"no result": python(NO_RESULT)})
    threading.Thread(target=slurm.hurry, args=[next(iter(jobs.values())).job_id], daemon=True).start()
    yield folder, jobs


@pytest.fixture(scope="module")
def fates(slurm: SmallSlurm, cheap: tuple[Path, Jobs]) -> Fates:
    folder, jobs = cheap
    by_label = {run.label: job for run, job in jobs.items()}
    slurm.command("scancel", by_label["cancelled"].job_id)
    failed = wait(jobs, lost_after_s=2)
    failures = {label: line for line in failed for label in by_label if line.startswith(f"{label} (")}
    return Fates(folder, by_label, failures)


# ---- through the front door


def test_several_runs_are_one_array_and_the_launch_names_those_that_failed(slurm: SmallSlurm, tmp_path: Path) -> None:
    """Two fail in their jobs: a file is where a stage needs a folder. grpo is a finished run."""
    shared = ("output_dir=runs", "cluster=slurm")
    finished(tmp_path / "runs", [*TINY, "algo=grpo", *shared])
    for algo in ("ppo", "vapo"):
        folder = tmp_path / "runs" / run_name(compose([*TINY, f"algo={algo}", *shared]))
        folder.mkdir()
        (folder / "tasks").write_text("a file")
    launch = front_door("-m", "algo=ppo,grpo,vapo", *TINY, *shared, cwd=tmp_path)
    try:
        _, err = launch.communicate(timeout=1200)
    finally:
        if launch.poll() is None:
            os.killpg(launch.pid, signal.SIGKILL)
    assert launch.returncode == 1, err
    assert "2 runs to go, 1 finished" in err
    array = err.split("submitted SLURM job ")[1].split(":")[0]
    assert f"job {array}_0: algo=ppo seed=0\n" in err and f"job {array}_1: algo=vapo seed=0\n" in err
    assert f"scancel {array} cancels them" in err
    failed = [line for line in err.splitlines() if line.startswith("turngrid: failed: ")]
    assert [line.split("(")[0].split()[2] for line in failed] == ["algo=ppo", "algo=vapo"]
    for line in failed:
        assert "failed with exit code 1" in line
        assert "FileExistsError" in Path(line.split("; ")[1].rstrip(")")).read_text()


@pytest.mark.slow  # what Ctrl-C does to runs on this machine is tested in test_launching.py
def test_ctrl_c_leaves_the_job_and_the_same_command_waits_for_it_again(slurm: SmallSlurm, tmp_path: Path) -> None:
    """One run without -m is a job too. SLURM is told to start it tomorrow."""
    later = "cluster.slurm.additional_parameters={begin: tomorrow}"
    arguments = (*TINY, "cluster=slurm", "cluster.slurm.lost_after_s=2", later)
    launch = front_door(*arguments, cwd=tmp_path)
    said = iter(launch.stderr.readline, "")
    job = next(line for line in said if "submitted SLURM job" in line).split("job ")[1].split(":")[0]
    next(line for line in said if "waiting for 1 job;" in line)
    os.killpg(launch.pid, signal.SIGINT)
    assert launch.wait(timeout=1200) == 130
    assert f"scancel {job}" in "".join(said)
    assert slurm.command("squeue", "-h", "-j", job, "-o", "%T").split() == ["PENDING"]
    again = front_door(*arguments, cwd=tmp_path)
    next(line for line in iter(again.stderr.readline, "") if f"job {job} of an earlier launch is in the queue" in line)
    slurm.command("scancel", job)
    _, err = again.communicate(timeout=1200)
    assert again.returncode == 1 and "submitted" not in err
    assert "left no result" in err.splitlines()[-1]


def test_what_sbatch_refuses_is_one_line(
    slurm: SmallSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "cluster=slurm", "cluster.slurm.partition=nowhere"]) == 1
    err = capfd.readouterr().err
    assert "nothing was submitted" in err.splitlines()[-1] and "invalid partition" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_what_is_asked_of_slurm(slurm: SmallSlurm, tmp_path: Path) -> None:
    """SLURM's own words for a job of two nodes with two GPUs each."""
    nodes = ("cluster=slurm_multinode", "trainer.n_gpus_per_node=2", "cluster.slurm.cpus_per_task=3")
    more = ("cluster.slurm.additional_parameters={begin: tomorrow}", "cluster.slurm.setup=[echo ready]")
    asked = settings(*nodes, *more, "cluster.slurm.partition=main", "cluster.slurm.timeout_min=90")
    (job,) = launched(tmp_path, asked, {"multinode": ["true"]}).values()
    words = slurm.command("scontrol", "-o", "show", "job", job.job_id).split()
    shown = dict(word.split("=", 1) for word in words if "=" in word)
    assert (shown["NumNodes"].split("-")[0], shown["TresPerNode"], shown["CPUs/Task"]) == ("2", "gres:gpu:2", "3")
    assert (shown["Partition"], shown["TimeLimit"], shown["JobName"]) == ("main", "01:30:00", "turngrid")
    assert "echo ready" in next(tmp_path.glob("*_submission.sh")).read_text()
    (job,) = launched(tmp_path, settings(*nodes, *more, "cluster.slurm.gres=gpu:1"), {"gres": ["true"]}).values()
    assert "TresPerNode=gres:gpu:1" in slurm.command("scontrol", "-o", "show", "job", job.job_id)


# ---- what becomes of a job


def test_one_failure_leaves_the_others(fates: Fates) -> None:
    array = {item.job_id.split("_")[0] for label, item in fates.jobs.items() if label.startswith("array")}
    assert len(array) == 1, "one array job"
    assert fates.failures["array-3-1"].startswith("array-3-1 (failed with exit code 3; ")
    assert set(fates.failures) == {"array-3-1", "too often", "cancelled", "no result"}


def test_so_many_jobs_of_an_array_run_at_once(fates: Fates) -> None:
    spans = [tuple(map(float, line.split())) for line in (fates.folder / "clock").read_text().splitlines()]
    assert len(spans) == 3
    assert max(sum(start <= other[0] < end for other in spans) for start, end in spans) <= 2


@pytest.mark.parametrize("label", ["cancelled", "no result"])
def test_a_job_that_leaves_no_result_is_given_up(fates: Fates, label: str) -> None:
    assert fates.failures[label].startswith(f"{label} (left no result; ")


def test_a_job_out_of_time_goes_back_into_the_queue(fates: Fates) -> None:
    assert "again" not in fates.failures, fates.jobs["again"].stdout()
    assert (fates.folder / "again").read_text() == "started\nstarted fresh=false\n", "it does not begin anew"


def test_a_job_leaves_its_temporary_folder_only_where_its_run_failed(fates: Fates) -> None:
    for label, item in fates.jobs.items():
        if label.startswith("array"):
            folder = re.findall("Ray's temporary folder is (.+)", item.stdout())[0]
            assert folder.startswith(os.environ["TMPDIR"]) and Path(folder).exists() == (label in fates.failures)


def test_but_not_for_ever(fates: Fates) -> None:
    assert (fates.folder / "too often").read_text() == "started\n"
    assert "ran out of time too often (cluster.slurm.max_num_timeout)" in fates.failures["too often"]
    log = fates.jobs["too often"].stdout()
    assert log and "Caught signal SIGUSR2" in log and "Bypassing signal SIGCONT" not in log


def test_a_job_that_slurm_has_forgotten_is_given_up(slurm: SmallSlurm, fates: Fates, tmp_path: Path) -> None:
    """Its controller loses all it knows. The last test: every other job is gone too."""
    tomorrow = "cluster.slurm.additional_parameters={begin: tomorrow}"
    jobs = launched(tmp_path / "slurm", settings(tomorrow), {"forgotten": ["true"]})
    slurm.forget()
    (line,) = wait(jobs, lost_after_s=1)
    assert line.startswith("forgotten (left no result; ")
