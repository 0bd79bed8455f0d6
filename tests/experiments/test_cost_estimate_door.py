"""``estimate=true`` through the front door: it prints, refuses, and leaves no run folder behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import small
from throughput_profiles import PROFILE

from config.compose import compose
from experiments.cost_estimate import gpu
from experiments.cost_estimate.calibrate import known
from experiments.cost_estimate.throughput import profile_file, save
from experiments.evaluation.result import RunResult
from records.run_folder import run_name
from train.app import main


def test_what_does_not_fit_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate=true", "budget.rl_steps=100000000", f"output_dir={tmp_path}/runs"]) == 2
    out, err = capfd.readouterr()
    assert "12,800,000,000 episodes" in out
    assert "turngrid: this does not fit: disk for the run: " in err
    assert not (tmp_path / "runs").exists()


def test_a_plan_from_known_profiles(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path))
    asked = [f"output_dir={tmp_path}/runs"]
    save(PROFILE, profile_file(compose(asked), tmp_path))
    assert main([*asked, "estimate=true"]) == 0
    out, _ = capfd.readouterr()
    assert run_name(compose(asked)) in out
    assert "1000 of 1000 units, 0 left (1000 counting games, 3800 counting rollouts)" in out
    assert "400 of w2-o3-q4, 0 of them made already" in out
    assert "25 steps x 128 = 3,200 episodes" in out
    assert "20.0 s + 25 steps x 7.50 s + 5 checkpoints x 0.40 s" in out
    assert not (tmp_path / "runs").exists()


def test_gpus_that_are_not_here(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["model=qwen2.5_1.5b", "algo=ppo", "cluster=gpu8", "estimate_gpu=H100x8"]) == 0
    out, _ = capfd.readouterr()
    assert gpu.ASSUMPTIONS in out and "47 of 80 GB" in out
    assert main(["model=qwen2.5_7b", "algo=ppo", "cluster=gpu1", "estimate_gpu=H100"]) == 2
    assert "memory: " in capfd.readouterr().err
    assert main(["estimate_gpu=H10"]) == 2
    assert capfd.readouterr().err.splitlines()[-1].startswith("turngrid: estimate_gpu=H10: did you mean H100x8?")
    assert main(["estimate_gpu=H100"]) == 2
    assert "cluster=cpu has none: choose cluster=gpu1 or gpu8" in capfd.readouterr().err
    assert main(["cluster=gpu1", "estimate_gpu=H100", "model.path=nobody/knows"]) == 2


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_a_cluster_that_is_not_here_is_pointed_to_plan_gpu(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate=true", "model=qwen2.5_0.5b", "cluster=gpu1", "budget=sft_only"]) == 2
    assert "cluster=gpu1 needs GPUs" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_calibration_is_made_once_and_predicts_a_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a factor of two: what else the machine does is not the same from one minute to the next."""
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path / "cache"))
    asked = [*small.OVERRIDES, f"output_dir={tmp_path}/runs"]
    assert main([*asked, "estimate=true"]) == 0
    profile = known(compose(asked))
    assert profile is not None and profile.source == "calibration"
    assert "a short one is made now" in capfd.readouterr().err
    assert main([*asked, "estimate=true"]) == 0
    out, err = capfd.readouterr()
    assert "a short one is made now" not in err
    assert main(asked) == 0
    result = RunResult.read(small.run_folder(tmp_path / "runs"))
    assert result is not None
    predicted = sum(_seconds(line.split("\u2502")[2]) for line in out.splitlines() if line.startswith("\u2502 all "))
    assert 0.5 < predicted / result.seconds < 2


def _seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"s": 1, "min": 60, "h": 3600}[unit]
