"""verl's platform for CPUs, and its device module, which has the interface of ``torch.cuda``."""

import resource
import types
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import psutil
import torch
import torch.distributed as dist
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def always(answer: Any) -> Callable[..., Any]:
    """Return a method that gives this answer, whatever verl asks."""
    return lambda *_, **__: answer


nothing = always(None)  # for GPU calls that do nothing on a CPU


class CpuDevice(types.ModuleType):
    """The device module; names that it lacks come from ``torch.cpu`` (streams, ``set_device``)."""

    empty_cache = ipc_collect = reset_peak_memory_stats = nothing
    is_available = always(False)  # no accelerator, so verl's memory helpers do nothing
    get_device_name = always("CPU")
    get_rng_state, set_rng_state = staticmethod(torch.get_rng_state), staticmethod(torch.set_rng_state)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

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
    is_available = always(True)
    current_device = always(torch.device("cpu"))  # not a number, which would mean a GPU
    device_count = always(1)
    get_device_capability = always((None, None))
    communication_backend_name = always("gloo")
    visible_devices_envvar = always("TURNGRID_VISIBLE_DEVICES")  # never set, since there is only one device
    ray_resource_name = always("GPU")  # a logical one for each training process
    ray_noset_envvars = always([])
    is_ipc_supported = always(False)
    nvtx_range = always(nullcontext())

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Return False: otherwise GPU machines without ``nvidia-smi`` would select it."""
        return False


usual = dist.init_process_group


def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """Accept "cpu:gloo,cpu:gloo" too, for which verl asks on a CPU."""
    if isinstance(backend, str) and "," in backend:
        backend = ",".join(dict.fromkeys(backend.split(",")))
    return usual(backend, *args, **kwargs)


dist.init_process_group = init_process_group
