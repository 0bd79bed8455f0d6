"""What verl finds of ours, asked in interpreters of their own: nothing is left over from another
test."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from turngrid.config.compose import compose
from turngrid.records.process.child import stage_variables
from turngrid.verl_plugin.hooks import WAITED_FOR

ROOT = Path(__file__).parents[2]
LIGHT = """
import json, sys
import verl
light = sorted(sys.modules)
"""
EVERYTHING = """
import importlib
from turngrid.verl_plugin.hooks import WAITED_FOR, AfterImport
for name in WAITED_FOR:
    importlib.import_module(name)

import torch.distributed as dist
from omegaconf import OmegaConf
from verl.plugin.platform import get_platform
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1 import trainer_base
from verl.utils.device import get_device_name
from verl.workers.engine.base import EngineRegistry
from verl.workers.rollout.base import get_rollout_class

def name_of(thing):
    return f"{thing.__module__}.{thing.__name__}"

facts = {
    "waiting": [name for finder in sys.meta_path if isinstance(finder, AfterImport) for name in finder.waiting],
    "finders": sum(isinstance(finder, AfterImport) for finder in sys.meta_path),
    "platform": [name_of(type(get_platform())), get_device_name(), str(get_platform().current_device())],
    "kl": name_of(trainer_base.apply_kl_penalty),
    "adapter": name_of(get_rollout_class("transformers", "async")),
    "engines": [
        name_of(EngineRegistry.get_engine_cls(kind, backend))
        for kind in ("language_model", "value_model")
        for backend in ("fsdp", "fsdp2")
    ],
}
"""
GLOO = """
import os, torch
os.environ.update(MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1")
dist.init_process_group("cpu:gloo,cpu:gloo", store=dist.HashStore(), rank=0, world_size=1)
ones = torch.ones(2)
dist.all_reduce(ones)
facts["gloo"] = [dist.get_backend(), ones.tolist()]
dist.destroy_process_group()
"""
TELL = """
print(json.dumps({"light": light, **facts}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """As in an installed wheel: no variable names the plugin, its metadata does. Stages name it in
    the environment of verl's processes, without which no run on CPUs would go (test_whole_run.py).
    """
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    lines = [f"{name} = {target}" for name, target in project["entry-points"]["verl.plugins"].items()]
    (metadata / "entry_points.txt").write_text("[verl.plugins]\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n", encoding="utf-8"
    )
    cleared = ("VERL_USE_EXTERNAL_MODULES", "VERL_USE_EXTERNAL_PLUGINS")
    environment = {name: value for name, value in os.environ.items() if name not in cleared}
    path = f"{folder}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-c", LIGHT + EVERYTHING + GLOO + TELL],
        cwd=folder,
        env=environment | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "VERL_PLATFORM": "cpu"},
        check=False,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_entry_point_registers_all(found: dict[str, Any]) -> None:
    assert found["kl"] == "turngrid.verl_plugin.training.estimators.apply_kl_penalty"
    assert found["adapter"] == "turngrid.verl_plugin.servers.transformers_server.replica.WeightSync"
    language, value = (
        "turngrid.verl_plugin.cpu.engines.CpuLanguageModel",
        "turngrid.verl_plugin.cpu.engines.CpuValueModel",
    )
    assert found["engines"] == [language, language, value, value]
    assert found["platform"] == ["turngrid.verl_plugin.cpu.platform.CpuPlatform", "cpu", "cpu"]
    assert found["waiting"] == [] and found["finders"] == 1


@pytest.mark.slow
def test_gloo_is_named_twice_and_started_once(found: dict[str, Any]) -> None:
    """verl asks for "cpu:gloo,cpu:gloo", which torch by itself refuses."""
    assert found["gloo"][1] == [1.0, 1.0]
    with pytest.raises(Exception, match="gloo"):
        torch.distributed.BackendConfig(torch.distributed.Backend("cpu:gloo,cpu:gloo"))


@pytest.mark.slow
def test_importing_verl_stays_light_and_late_plugins_catch_up(
    found: dict[str, Any], plain_verl: dict[str, Any]
) -> None:
    added = set(found["light"]) - set(plain_verl["light"])
    allowed = {"turngrid", "turngrid.verl_plugin", "turngrid.verl_plugin.hooks", "turngrid.verl_plugin.changes"}
    allowed |= {f"turngrid.verl_plugin.cpu{module}" for module in ("", ".platform")}
    allowed |= {"turngrid.envs", "turngrid.envs.utils", "turngrid.envs.utils.stacks"}
    assert {"turngrid.verl_plugin", "turngrid.verl_plugin.hooks"} <= added
    assert {name for name in added - allowed if name.split(".")[0] not in ("psutil", "resource")} == set()
    assert not WAITED_FOR - {"verl.plugin.platform.platform_manager"} & set(found["light"])
    assert plain_verl["late"], "a loss is changed although verl had loaded its module before the plugin"


@pytest.mark.parametrize(("cluster", "device"), [("cpu", "cpu"), ("gpu1", "cuda")])
def test_a_processs_platform_is_its_runs(
    cluster: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no ``nvidia-smi`` too: verl then asks each platform in turn, and ours is also
    in processes of a GPU run."""
    from verl.plugin.platform import platform_manager

    assert platform_manager.PlatformRegistry.get("cpu") is not None
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, value in stage_variables(compose([f"cluster={cluster}", "model=tiny"]), tmp_path).items():
        monkeypatch.setenv(name, value)
    found = platform_manager._create_platform(platform_manager._detect_platform_name())
    assert found.device_name == device


def test_the_cpu_stands_in_for_a_device() -> None:
    from turngrid.verl_plugin.cpu.platform import CPU_DEVICE, CpuPlatform

    platform = CpuPlatform()
    assert platform.device_module is CPU_DEVICE
    assert platform.ray_resource_options(1) == {"num_gpus": 1} and platform.communication_backend_name() == "gloo"
    assert 2**20 < CPU_DEVICE.memory_allocated() <= 1.1 * CPU_DEVICE.max_memory_allocated(), "the kernel's peak lags"
    free, total = CPU_DEVICE.mem_get_info()
    assert 0 < free <= total
    CPU_DEVICE.manual_seed(3)
    state, first = CPU_DEVICE.get_rng_state(), torch.rand(2)
    CPU_DEVICE.set_rng_state(state)
    assert torch.equal(torch.rand(2), first)
    platform.manual_seed(3)
    assert torch.equal(torch.rand(2), first)
    with CPU_DEVICE.stream(CPU_DEVICE.current_stream()):  # from torch.cpu
        CPU_DEVICE.synchronize()
