"""What a checkpoint costs in space and time, and so how often one is worth it. The speed of the disk is an assumption."""

from __future__ import annotations

WEIGHTS, ADAM = 4, 8  # bytes a parameter, in fp32; the policy's weights are there twice: evaluation loads a plain copy
DISK = 2e9  # bytes a second
STEP_SECONDS = 20.0  # of a step on GPUs
SHARE = 1 / 8  # of the time that saving may take
MOST = 50  # steps that a killed run may have to do again


def size(parameters: int, critic: bool, adapter: int = 0) -> float:
    """Bytes of one checkpoint; ``adapter``: parameters of LoRA's, which alone have Adam's numbers then."""
    policy = 2 * WEIGHTS * (parameters + adapter) + ADAM * (adapter or parameters)
    return float(policy + (WEIGHTS + ADAM) * parameters * critic)


def seconds(number_of_bytes: float) -> float:
    return number_of_bytes / DISK


def steps_between(number_of_bytes: float) -> int:
    """A multiple of 5, at least 5 and at most ``MOST``, so that saving takes about ``SHARE`` of the time."""
    wanted = seconds(number_of_bytes) / (SHARE * STEP_SECONDS)
    return min(MOST, 5 * max(1, -int(-wanted // 5)))
