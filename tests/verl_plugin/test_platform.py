"""The platform of verl's processes, and our device module for CPUs."""

from pathlib import Path

import pytest

from turngrid.config.compose import compose
from turngrid.tasks.run import Run
from turngrid.tasks.stage_process import stage_variables


@pytest.mark.parametrize(("cluster", "device"), [("cpu", "cpu"), ("gpu1", "cuda")])
def test_a_platform_is_its_runs(cluster: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no ``nvidia-smi`` too: verl then asks each platform in turn, and ours is also
    in processes of a GPU run."""
    from verl.plugin.platform import platform_manager

    assert platform_manager.PlatformRegistry.get("cpu") is not None
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, value in stage_variables(Run(compose([f"cluster={cluster}", "model=tiny"]), tmp_path)).items():
        monkeypatch.setenv(name, value)
    found = platform_manager._create_platform(platform_manager._detect_platform_name())
    assert found.device_name == device


def test_the_cpu_stands_in_for_a_device() -> None:
    from turngrid.verl_plugin.cpu.platform import CPU_DEVICE, CpuPlatform

    platform = CpuPlatform()
    assert platform.device_module is CPU_DEVICE
    assert 2**20 < CPU_DEVICE.memory_allocated() <= 1.1 * CPU_DEVICE.max_memory_allocated(), "the kernel's peak lags"
    free, total = CPU_DEVICE.mem_get_info()
    assert 0 < free <= total
