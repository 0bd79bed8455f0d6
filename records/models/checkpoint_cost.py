"""What a checkpoint costs in space and time, and so how often one is worth it. The speed of the disk is an assumption."""

from __future__ import annotations

ACTOR_BYTES, CRITIC_BYTES = (
    16,
    12,
)  # a parameter: fp32 weights, Adam, and for the policy a plain copy that evaluation loads
DISK = 2e9  # bytes a second
STEP_SECONDS = 20.0  # of a step on GPUs
SHARE = 1 / 8  # of the time that saving may take
MOST = 50  # steps that a killed run may have to do again


def size(parameters: int, critic: bool) -> float:
    """Bytes of one checkpoint."""
    return float(parameters * (ACTOR_BYTES + CRITIC_BYTES * critic))


def seconds(number_of_bytes: float) -> float:
    return number_of_bytes / DISK


def steps_between(number_of_bytes: float) -> int:
    """A multiple of 5, at least 5 and at most ``MOST``, so that saving takes about ``SHARE`` of the time."""
    wanted = seconds(number_of_bytes) / (SHARE * STEP_SECONDS)
    return min(MOST, 5 * max(1, -int(-wanted // 5)))
