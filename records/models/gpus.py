"""GPUs that the cost estimate knows (``estimate_gpu=H100x8``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from turngrid.envs.utils.names import nearest
from turngrid.records.process.exit_codes import Refusal

GB = 1e9


class GpuError(Refusal):
    """Unknown GPU; the message names the nearest."""


@dataclass(frozen=True)
class Gpu:
    """A GPU with ``memory`` bytes."""

    memory: float


GPUS = {
    "A10": Gpu(24 * GB),
    "RTX3090": Gpu(24 * GB),
    "RTX4090": Gpu(24 * GB),
    "RTX5090": Gpu(32 * GB),
    "A6000": Gpu(48 * GB),
    "L40S": Gpu(48 * GB),
    "A100-40": Gpu(40 * GB),
    "A100": Gpu(80 * GB),
    "H100": Gpu(80 * GB),
    "H200": Gpu(141 * GB),
    "B200": Gpu(180 * GB),
}


def gpu(name: str) -> Gpu:
    """Return one of ``GPUS``, or a GPU of the given memory, as ``24GB``.

    Raises:
        KeyError: the name is neither.
    """
    size = re.fullmatch(r"([1-9]\d{0,3})GB", name)
    return Gpu(int(size[1]) * GB) if size else GPUS[name]


def parse(text: str) -> tuple[str, int]:
    """Parse ``H100x8``, ``8xH100``, ``H100`` or ``48GBx8`` into a name and a number.

    Raises:
        GpuError: the GPU is unknown or the number is 0.
    """
    match = re.fullmatch(r"(?:(?P<n>\d+)x)?(?P<name>[A-Za-z][\w-]*?|\d+[gG][bB])(?:x(?P<m>\d+))?", text)
    name = match["name"].upper() if match else text.upper()
    number = int((match["n"] or match["m"] or 1) if match else 1)
    try:
        gpu(name)
    except KeyError:
        number = 0
    if number < 1:
        known = f"or a memory size, as 24GB; known: {', '.join(GPUS)}"
        raise GpuError(
            f"estimate_gpu={text}: unknown; use {nearest(name, GPUS)}x8, or estimate_gpu=NAMExNUMBER, {known}"
        )
    return name, number
