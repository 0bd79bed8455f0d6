"""``rollout=``, ``cluster=gpu*`` and trackers on machines with and without GPUs, packages and keys.
The device files here are a folder's."""

import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from turngrid.config import machine
from turngrid.config.compose import Composer, compose, composer
from turngrid.config.errors import ConfigError
from turngrid.config.machine import gpus
from turngrid.train.app import main


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No GPU whatever machine the test runs on."""
    if shutil.which("nvidia-smi") or any(Path(path).exists() for path in machine.OTHER_DRIVERS):
        pytest.skip("this machine has a GPU driver")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """A /dev with two GPUs, and what else NVIDIA's driver leaves there."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def composed() -> Iterator[Composer]:
    """Not for the whole module: some tests start the command, which initialises Hydra itself."""
    with composer() as compose:
        yield compose


@pytest.mark.parametrize(("visible", "count"), [("1", 1), ("0,1", 2), ("", 0), ("-1", 0), ("GPU-a1,GPU-b2", 2)])
def test_what_the_shell_hides_does_not_count(bare: pytest.MonkeyPatch, devices: Path, visible: str, count: int) -> None:
    bare.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus(devices) == count


def test_a_driver_without_device_files_means_some(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert gpus(tmp_path) == 0
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.touch(mode=0o755)
    bare.setenv("PATH", str(tool.parent))
    assert gpus(tmp_path) is None


def server(config: object) -> tuple[str, str]:
    rollout = config.actor_rollout_ref.rollout  # type: ignore[attr-defined]
    return rollout.name, rollout.load_format


@pytest.mark.skipif(machine.vllm_installed(), reason="vLLM is installed here")
def test_gpus_without_vllm_get_what_runs_there(composed: Composer, bare: pytest.MonkeyPatch, devices: Path) -> None:
    assert server(composed(["cluster=gpu8"])) == ("vllm", "dummy"), "planned where no GPU is"
    bare.setattr(machine, "gpus", lambda: gpus(devices))
    assert server(composed([])) == server(composed(["cluster=gpu1"])) == ("transformers", "auto")
    assert server(composed(["cluster=gpu1", "rollout=vllm"])) == ("vllm", "dummy")


def test_gpu_presets_are_refused_where_there_is_none(bare: pytest.MonkeyPatch, tmp_path: Path, capfd) -> None:
    assert main(["cluster=gpu1", f"output_dir={tmp_path}"]) == 2
    message = capfd.readouterr().err
    assert "this machine has no GPU" in message and "cluster=cpu" in message and "estimate_gpu=H100x1" in message
    if not machine.vllm_installed():
        assert main(["rollout=vllm", f"output_dir={tmp_path}"]) == 2
        assert "rollout=transformers" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_fewer_gpus_than_asked_for(composed: Composer, bare: pytest.MonkeyPatch, devices: Path) -> None:
    config = composed(["cluster=gpu8"])
    bare.setattr(machine, "gpus", lambda: gpus(devices))
    with pytest.raises(ConfigError, match="n_gpus_per_node=8: this machine has 2"):
        machine.check_gpus(config)
    two = ["cluster=gpu8", "trainer.n_gpus_per_node=2"]
    machine.check_gpus(composed(two))
    separate = ["trainer.v1.trainer_mode=separate_async", "actor_rollout_ref.rollout.nnodes=1"]
    with pytest.raises(ConfigError, match="servers make it 4, .* has 2.*use .*n_gpus_per_node=1"):
        machine.check_gpus(composed([*two, *separate]))


def test_models_that_vllm_cannot_run_on_a_cpu(composed: Composer) -> None:
    with pytest.raises(
        ConfigError, match="model.path=asset://tiny: its attention heads have 16 numbers.*use rollout=transformers"
    ):
        machine.check_kernels(composed(["rollout=vllm"]))
    machine.check_kernels(composed(["rollout=vllm", "model=qwen2.5_0.5b"]))
    machine.check_kernels(composed([]))


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="flash-attn is installed here")
def test_trainers_without_their_attention(composed: Composer) -> None:
    sdpa = "+actor_rollout_ref.model.override_config.attn_implementation=sdpa"
    packed = "actor_rollout_ref.model.use_remove_padding=false"
    with pytest.raises(ConfigError, match=r"cluster=gpu1: it trains with flash-attn.*attn_implementation=sdpa"):
        machine.check_kernels(composed(["cluster=gpu1"]))
    with pytest.raises(ConfigError, match="use_remove_padding=false"):
        machine.check_kernels(composed(["cluster=gpu1", sdpa]))
    machine.check_kernels(composed(["cluster=gpu1", sdpa, packed]))
    with pytest.raises(ConfigError, match="algo=ppo: verl loads a critic on GPUs with flash-attn.*use algo=grpo"):
        machine.check_kernels(composed(["cluster=gpu1", "algo=ppo", sdpa, packed]))


@pytest.mark.parametrize(("cores", "workers", "agents"), [(1, 1, 1), (64, 4, 8)])
def test_processes_follow_the_cores(
    composed: Composer, monkeypatch: pytest.MonkeyPatch, cores: int, workers: int, agents: int
) -> None:
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _process: range(cores))
    config = composed(["cluster=gpu8"])
    assert (config.env.workers, config.actor_rollout_ref.rollout.agent.num_workers) == (workers, agents)
    assert composed([]).cluster.trainer_threads == min(cores, 2)


# ---- trackers


@pytest.fixture
def logged_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    return monkeypatch


def test_wandb_needs_a_key_and_says_where_to_get_it(
    logged_out: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tracking=wandb", f"output_dir={tmp_path / 'runs'}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("turngrid: tracking=wandb: there is no key for https://api.wandb.ai; run `wandb login`")
    assert "tracking=wandb_offline" in line
    assert not (tmp_path / "runs").exists()


def test_a_key_in_the_environment_or_in_netrc_will_do(logged_out: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = compose(["tracking=wandb"])
    (tmp_path / "netrc").write_text(f"machine other.host login user password {'b' * 40}\n")
    with pytest.raises(ConfigError):
        machine.check_trackers(config)
    (tmp_path / "netrc").write_text(f"machine api.wandb.ai login user password {'b' * 40}\n")
    machine.check_trackers(config)
    (tmp_path / "netrc").unlink()
    logged_out.setenv("WANDB_API_KEY", "a" * 40)
    machine.check_trackers(config)
    logged_out.delenv("WANDB_API_KEY")
    logged_out.setenv("WANDB_MODE", "offline")
    machine.check_trackers(config)


def test_a_tracker_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    config = compose(["tracking=trackio"])
    with pytest.raises(ConfigError, match=r"trackio is not installed.*pip install 'turngrid\[trackio\]'"):
        machine.check_trackers(config)
