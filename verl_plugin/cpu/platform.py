"""verl's platform for CPUs, and its device module, which has the interface of ``torch.cuda``."""

import resource
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
import torch.distributed as dist
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def nothing(*_: Any, **__: Any) -> None:
    """What verl asks of a GPU, and a CPU need not do."""


class CpuDevice(types.ModuleType):
    """The device module; names that it lacks come from ``torch.cpu`` (streams, ``set_device``)."""

    empty_cache = ipc_collect = reset_peak_memory_stats = staticmethod(nothing)
    get_rng_state, set_rng_state = staticmethod(torch.get_rng_state), staticmethod(torch.set_rng_state)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    @staticmethod
    def is_available() -> bool:
        return False  # no accelerator, so verl's memory helpers do nothing

    @staticmethod
    def get_device_name(device: Any = None) -> str:
        return "CPU"

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        return psutil.Process().memory_info().rss

    memory_reserved = memory_allocated

    @staticmethod
    def max_memory_allocated(device: Any = None) -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    max_memory_reserved = max_memory_allocated

    @staticmethod
    def mem_get_info(device: Any = None) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.available, memory.total


CPU_DEVICE = CpuDevice("turngrid_cpu_device")


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """The platform selected by ``VERL_PLATFORM=cpu``."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = CPU_DEVICE
    set_device = synchronize = set_allocator_settings = empty_cache = nothing
    profiler_start = profiler_stop = cudart = nothing
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Never selected automatically: processes of a GPU machine without ``nvidia-smi`` would
        select it.
        """
        return False

    def current_device(self) -> torch.device:  # type: ignore[override]
        """Return a device, not a number, which would mean a GPU."""
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "TURNGRID_VISIBLE_DEVICES"  # never set, since there is only one device

    def ray_resource_name(self) -> str:
        return "GPU"  # a logical one for each training process

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield


def _name_each_backend_once() -> None:
    """Make torch accept "cpu:gloo,cpu:gloo", for which verl asks on a CPU."""
    original = dist.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(backend, str) and "," in backend:
            backend = ",".join(dict.fromkeys(backend.split(",")))
        return original(backend, *args, **kwargs)

    dist.init_process_group = init_process_group


_name_each_backend_once()
