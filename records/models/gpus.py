"""GPUs that a run may be planned for (``estimate_gpu=H100x8``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.utils.names import nearest
from records.process.exit_codes import Refusal

GB = 1e9


class GpuError(Refusal):
    """No such GPU; the message names the nearest."""


@dataclass(frozen=True)
class Gpu:
    """``memory`` in bytes; ``flops``: dense bf16 operations a second, 0 if unknown; as in NVIDIA's data sheets."""

    memory: float
    flops: float = 0.0


GPUS = {
    "A10": Gpu(24 * GB, 125e12),
    "RTX3090": Gpu(24 * GB, 71e12),
    "RTX4090": Gpu(24 * GB, 165e12),
    "RTX5090": Gpu(32 * GB, 209e12),
    "A6000": Gpu(48 * GB, 155e12),
    "L40S": Gpu(48 * GB, 362e12),
    "A100-40": Gpu(40 * GB, 312e12),
    "A100": Gpu(80 * GB, 312e12),
    "H100": Gpu(80 * GB, 989e12),
    "H200": Gpu(141 * GB, 989e12),
    "B200": Gpu(180 * GB, 2250e12),
}


def gpu(name: str) -> Gpu:
    """One of ``GPUS``, or any other by its memory: ``24GB``. Raises: KeyError."""
    size = re.fullmatch(r"([1-9]\d{0,3})GB", name)
    return Gpu(int(size[1]) * GB) if size else GPUS[name]


def of_known_speed(name: str) -> str:
    """The card itself, or for a bare size the slowest known card of the next memory size."""
    if name in GPUS:
        return name
    large = [known for known, card in GPUS.items() if card.memory >= gpu(name).memory] or ["B200"]
    return min(large, key=lambda known: (GPUS[known].memory, GPUS[known].flops))


def parse(text: str) -> tuple[str, int]:
    """``H100x8``, ``8xH100``, ``H100`` or ``48GBx8`` -> (name, number). Raises: GpuError."""
    match = re.fullmatch(r"(?:(?P<n>\d+)x)?(?P<name>[A-Za-z][\w-]*?|\d+[gG][bB])(?:x(?P<m>\d+))?", text)
    name = match["name"].upper() if match else text.upper()
    number = int((match["n"] or match["m"] or 1) if match else 1)
    try:
        gpu(name)
    except KeyError:
        number = 0
    if number < 1:
        known = f"NAMExNUMBER; known: {', '.join(GPUS)}, or its memory as in 24GB"
        raise GpuError(f"estimate_gpu={text}: did you mean {nearest(name, GPUS)}x8? ({known})")
    return name, number
