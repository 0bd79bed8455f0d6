"""Threads and memory of a process on CPUs."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

WIDE = 256  # hidden size from which a second thread saves more than its wake-ups cost


def threads(model_config: Any, role: str) -> int:
    """Return the number of torch's threads: one for a narrow model, else the config's.

    Args:
        model_config: transformers' config of the model.
        role: "TRAINER" or "ROLLOUT".
    """
    narrow = model_config.get_text_config().hidden_size < WIDE
    return 1 if narrow else int(os.environ.get(f"TURNGRID_{role}_THREADS", "1"))


def sampling_thread(model_config: Any) -> ThreadPoolExecutor:
    """Return one thread in which a model samples. OpenMP stores the number per calling thread."""
    count = threads(model_config, "ROLLOUT")
    return ThreadPoolExecutor(max_workers=1, initializer=torch.set_num_threads, initargs=(count,))


def give_back() -> None:
    """Return free memory to the system; glibc keeps up to gigabytes. Without glibc, do nothing."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
