"""The machine: driver, packages, free memory, and the peak memory of a run."""

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from omegaconf import DictConfig

from turngrid.config.precision import instructions
from turngrid.experiments.cost_estimate.amounts import machine
from turngrid.experiments.cost_estimate.memory import demand, devices
from turngrid.records.models.gpus import GB
from turngrid.records.models.shape import shape_of
from turngrid.records.provenance import Attempt

SECONDS = 1.0  # between two looks at the memory


def facts(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Return rows of the report."""
    memory, attempt, rank = psutil.virtual_memory(), Attempt.now(), config.model.lora_rank
    yield "machine", f"{machine()}, {instructions() or 'no instructions'} for bf16, {' '.join(platform.libc_ver())}"
    places = {"on this disk": Path.cwd(), "in /dev/shm": Path("/dev/shm")}
    disks = [f"{shutil.disk_usage(path).free / GB:.0f} GB {where}" for where, path in places.items() if path.exists()]
    yield "free", ", ".join([f"{memory.available / GB:.1f} of {memory.total / GB:.1f} GB memory", *disks])
    for line in nvidia_smi("name,driver_version,memory.free,memory.total"):
        yield "GPU", "{}, driver {}, {} of {} MiB free".format(*(word.strip() for word in line.split(",")))
    packages = attempt.versions
    with suppress(PackageNotFoundError):
        packages |= {"flash-attn": version("flash-attn")}
    yield "packages", ", ".join(f"{name} {number}" for name, number in packages.items())
    yield "commit", f"{attempt.commit}{', with changes' if attempt.dirty else ''}"
    server, adapter = config.actor_rollout_ref.rollout.name, f" lora_rank={rank}" if rank else ""
    yield "run", f"cluster={config.cluster.name} rollout={server} model={config.model.path}{adapter}"


def nvidia_smi(query: str) -> list[str]:
    """Return a line for each GPU that a process here may use; nothing without a driver."""
    chosen = [f"--id={visible}"] if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) else []
    asked = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", *chosen]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
        return [line for line in done.stdout.splitlines() if line.strip()]
    return []


class Peak:
    """The peak memory of a run: of the fullest GPU, or on CPUs of this process and all below it."""

    def __init__(self, config: DictConfig) -> None:
        self._config, self._on_gpus, self._bytes, self._looked = config, config.trainer.device != "cpu", 0.0, 0.0

    def look(self) -> None:
        """Called a few times a second."""
        if time.monotonic() - self._looked >= SECONDS:
            self._looked = time.monotonic()
            gpus = [float(line) * 2**20 for line in nvidia_smi("memory.used")] if self._on_gpus else []
            self._bytes = max(self._bytes, *(gpus or [_of_processes()]))

    def beside_estimate(self) -> str:
        shape, where = shape_of(self._config.model.path), devices(self._config)
        expected = f"{demand(self._config, shape, where).peak() / GB:.1f} GB" if shape and where else "not known"
        return f"{self._bytes / GB:.1f} GB{' of the fullest GPU' if self._on_gpus else ''}; the estimate is {expected}"


def _of_processes() -> float:
    """Return proportional set sizes: memory that processes share counts once."""
    total, own = 0.0, psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total
