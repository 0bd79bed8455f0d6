"""Size of a checkpoint, the time to write it, and the number of steps between two checkpoints.

The speed of the disk is an assumption.
"""

from __future__ import annotations

WEIGHTS, ADAM = 4, 8  # bytes a parameter, in fp32; the policy is saved twice: evaluation loads a plain copy
DISK = 2e9  # speed of the disk in bytes a second
STEP_SECONDS = 20.0  # seconds of a step on GPUs
SHARE = 1 / 8  # maximum share of the time for saving
MOST = 50  # maximum steps that a killed run repeats


def size(parameters: int, critic: bool, adapter: int = 0) -> float:
    """Return the bytes of one checkpoint.

    Args:
        parameters: of the policy, and of the critic if there is one.
        critic: whether a critic is saved too.
        adapter: parameters of the LoRA adapter. If not 0, Adam's state covers these alone.
    """
    policy = 2 * WEIGHTS * (parameters + adapter) + ADAM * (adapter or parameters)
    return float(policy + (WEIGHTS + ADAM) * parameters * critic)


def seconds(number_of_bytes: float) -> float:
    return number_of_bytes / DISK


def steps_between(number_of_bytes: float) -> int:
    """Return a multiple of 5 with which saving takes about ``SHARE`` of the time."""
    wanted = seconds(number_of_bytes) / (SHARE * STEP_SECONDS)
    return min(MOST, 5 * max(1, -int(-wanted // 5)))
