"""``estimate=true`` through the front door: it prints, refuses, and leaves no run folder behind."""

import json
from pathlib import Path

import psutil
import pytest

from turngrid.config import machine
from turngrid.config.compose import compose
from turngrid.experiments.cost_estimate import memory
from turngrid.experiments.cost_estimate.amounts import record_file
from turngrid.records.models.gpus import GB
from turngrid.records.run_folder import run_name
from turngrid.tasks.run import Run
from turngrid.train.app import main


def test_what_does_not_fit_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate=true", "budget.rl_steps=100000000", f"output_dir={tmp_path}/runs"]) == 2
    out, err = capfd.readouterr()
    assert "12,800,000,000 episodes" in out
    assert "turngrid: this does not fit: disk: " in err and "use output_dir=FOLDER" in err
    assert not (tmp_path / "runs").exists()


def test_from_a_record(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path))
    asked = [f"output_dir={tmp_path}/runs"]
    assert main([*asked, "estimate=true"]) == 0
    out, _ = capfd.readouterr()
    assert "no run of this kind was recorded on this machine" in out and "time: rl" not in out
    assert list(tmp_path.iterdir()) == [], "nothing runs"
    file = record_file(Run(compose(asked)))
    file.parent.mkdir()
    file.write_text(json.dumps({"demonstrations": 0.05, "sft": 0.2, "rl": 7.5, "evaluation": 0.1}))
    assert main([*asked, "estimate=true"]) == 0
    out, _ = capfd.readouterr()
    assert run_name(compose(asked)) in out
    assert "1000 of 1000 units, 0 left" in out
    assert "400 of w2-o3-q4, 0 of them made already" in out
    assert "25 steps x 128 = 3,200 episodes" in out
    assert "3 min 08 s" in out and "time: as recorded on " in out
    grid = ["-m", *asked, "estimate_gpu=H100,A100", "cluster=slurm_gpu1", "model=qwen2.5_0.5b", "fresh=true"]
    assert main(grid) == 0 and capfd.readouterr().out.count("memory of ") == 2
    assert not (tmp_path / "runs").exists()


def test_gpus_that_are_not_here(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["model=qwen2.5_1.5b", "algo=ppo", "cluster=gpu8", "estimate_gpu=H100x8"]) == 0
    out, _ = capfd.readouterr()
    assert "47 of 80 GB" in out and "time:" not in out
    assert main(["model=qwen2.5_7b", "algo=ppo", "cluster=gpu1", "estimate_gpu=H100"]) == 2
    assert "memory: " in capfd.readouterr().err
    assert main(["estimate_gpu=H100"]) == 2
    assert "cluster=cpu has no GPU; use cluster=gpu1" in capfd.readouterr().err
    assert main(["cluster=gpu1", "estimate_gpu=H100", "model.path=nobody/knows"]) == 2


LIMITED = [  # the machine's memory, the file of a group's limit of 16 GB, SLURM's limit in MB
    ("estimate=true", 16, "memory.max", "0"),
    ("estimate=false", 64, "outer/memory.max", "0"),
    ("estimate=false", 64, "memory/container/memory.limit_in_bytes", "0"),
    ("estimate=false", 64, "", "15258"),
    ("cluster=local_parallel cluster.runs_at_once=3", 48, "", "0"),
]


@pytest.mark.parametrize("case", LIMITED)
def test_one_check_of_memory_for_an_estimate_and_a_start(
    case: tuple[str, int, str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words, total, limit, job = case

    class Memory:
        def __init__(self) -> None:
            self.total = total * GB

    monkeypatch.setattr(memory, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "LIMITS", tmp_path)
    memory.GROUPS.write_text("4:cpu,memory:/container\n0::/outer/inner\n")
    for file, text in {"outer/inner/memory.max": "max\n", limit: f"{16 * GB:.0f}\n"}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / (file or "none")).write_text(text)
    monkeypatch.setenv("SLURM_MEM_PER_NODE", job)
    monkeypatch.setattr(psutil, "virtual_memory", Memory)
    monkeypatch.setattr(machine, "check_packaged", lambda path, cache: None)  # `make test` has no such package
    model = ["model=smollm2_135m", "model.rows_per_pass=4", "model.gradient_checkpointing=false", "precision=fp32"]
    assert main([*model, "prompt=think_action", *words.split(), f"output_dir={tmp_path}/runs"]) == 2
    err = capfd.readouterr().err.splitlines()[-1]
    assert "GB needed, 15 GB there; what fits: " in err and "ppo_micro_batch_size_per_gpu=" in err
    assert ("cluster.runs_at_once=1" in err) == ("cluster.runs_at_once=3" in words)
    assert not (tmp_path / "runs").exists()
