"""The interface of ``torch.cuda`` for CPUs, which verl calls on "the device's torch module"."""

from __future__ import annotations

import resource
import types
from typing import Any

import psutil
import torch


class CpuDevice(types.ModuleType):
    """The device module; names that it lacks come from ``torch.cpu`` (streams, events,
    ``synchronize``).
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    @staticmethod
    def is_available() -> bool:
        return False  # no accelerator, so verl's memory helpers do nothing

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def set_device(device: Any) -> None: ...

    @staticmethod
    def empty_cache() -> None: ...

    @staticmethod
    def ipc_collect() -> None: ...

    @staticmethod
    def reset_peak_memory_stats(device: Any = None) -> None: ...

    @staticmethod
    def get_device_name(device: Any = None) -> str:
        return "CPU"

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        """Return the resident bytes of this process."""
        return psutil.Process().memory_info().rss

    memory_reserved = memory_allocated

    @staticmethod
    def max_memory_allocated(device: Any = None) -> int:
        """Return the peak resident bytes of this process."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    max_memory_reserved = max_memory_allocated

    @staticmethod
    def mem_get_info(device: Any = None) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    @staticmethod
    def get_rng_state(device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    @staticmethod
    def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)

    @staticmethod
    def manual_seed(seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


CPU_DEVICE = CpuDevice("turngrid_cpu_device")
