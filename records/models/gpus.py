"""GPUs that the cost estimate knows (``estimate_gpu=H100x8``), and what a checkpoint costs."""

import re

from turngrid.envs.utils.names import nearest
from turngrid.records.process.exit_codes import Refusal

GB = 1e9
GPUS = {  # memory in bytes
    **dict.fromkeys(("A10", "RTX3090", "RTX4090"), 24 * GB),
    "RTX5090": 32 * GB,
    "A100-40": 40 * GB,
    **dict.fromkeys(("A6000", "L40S"), 48 * GB),
    **dict.fromkeys(("A100", "H100"), 80 * GB),
    "H200": 141 * GB,
    "B200": 180 * GB,
}
SIZE = re.compile(r"([1-9]\d{0,3})GB")
WEIGHTS, ADAM = 4, 8  # bytes a parameter, in fp32; the policy is saved twice: evaluation loads a plain copy
DISK = 2e9  # assumed speed of the disk in bytes a second
STEP_SECONDS = 20.0  # seconds of a step on GPUs
SHARE = 1 / 8  # maximum share of the time for saving
MOST = 50  # maximum steps that a killed run repeats


def parse(text: str) -> tuple[str, int, float]:
    """Parse ``H100x8``, ``H100`` or ``48GBx8`` into a name, a number, and the bytes of one GPU.

    Raises:
        Refusal: the GPU is unknown or the number is 0.
    """
    match = re.fullmatch(r"(?P<name>[\w-]+?)(?:x(?P<number>\d+))?", text)  # RTX4090 has another X
    name, number = (match["name"].upper(), int(match["number"] or 1)) if match else (text, 1)
    size = SIZE.fullmatch(name)
    if memory := int(size[1]) * GB if size else GPUS.get(name):
        if number:
            return name, number, memory
        reason = f"the number of GPUs must be 1 or more; use estimate_gpu={name}x8"
        raise Refusal(f"estimate_gpu={text}: {reason}")
    use = f"use {nearest(name, GPUS)}x8, or estimate_gpu=NAMExNUMBER, or a memory size, as 24GB"
    raise Refusal(f"estimate_gpu={text}: unknown; {use}; known: {', '.join(GPUS)}")


def sharded_over(number: int, fsdp_size: int) -> int:
    """Return over how many of the GPUs FSDP2 shards a model; the others hold copies."""
    return fsdp_size if 0 < fsdp_size < number else number


def checkpoint_size(parameters: int, critic: bool, adapter: int = 0, copies: int = 1) -> float:
    """Return the bytes of one checkpoint; with an ``adapter``, Adam's state is its alone.

    Every GPU saves its shard, so each of the trainer's ``copies`` of a model is saved.
    """
    policy = WEIGHTS * (parameters + adapter) + ADAM * (adapter or parameters)
    return float(WEIGHTS * (parameters + adapter) + copies * (policy + (WEIGHTS + ADAM) * parameters * critic))


def steps_between(number_of_bytes: float) -> int:
    """Return the smallest multiple of 5 with which saving takes at most ``SHARE`` of the time.

    It is ``MOST`` if that is smaller.
    """
    wanted = number_of_bytes / DISK / (SHARE * STEP_SECONDS)
    return min(MOST, 5 * max(1, -int(-wanted // 5)))
