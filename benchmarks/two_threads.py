"""Time that two threads take, by how long one that waits for the other stays awake.

python -m benchmarks.two_threads

Products of SmolLM2-135M's shapes in bf16, each with an activation and a norm: 22 rows are a step of
decoding, 1,024 rows are a forward and backward pass. Seconds are compared with threads that sleep
at once, on the free machine and beside a process that is always busy.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch.nn.functional import rms_norm, silu

from turngrid.tasks.stage_process import GOMP_SPINCOUNT

SHAPES = [(576, 576), (576, 192), (576, 192), (576, 576), (576, 1536), (576, 1536), (1536, 576)]  # of a layer
LAYERS = 30
REPEATS = {22: 40, 1024: 2}  # rows -> passes
SPINS = ("0", GOMP_SPINCOUNT, "30000")


def main() -> None:
    for beside in (False, True):
        with busy_process() if beside else nullcontext():
            seconds = {spins: measured(spins) for spins in SPINS}
        for rows in REPEATS:
            for spins in SPINS:
                took, ratio = seconds[spins][rows], seconds[spins][rows] / seconds["0"][rows]
                beside_what = "beside a busy process" if beside else "alone"
                print(f"{rows:>5} rows, {beside_what}, {spins:>5} spins: {took * 1e3:7.1f} ms, {ratio:.2f} times")


def measured(spins: str) -> dict[int, float]:
    """Return wall-clock seconds of a pass by rows, in a process of its own."""
    variables = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": spins}
    command = [sys.executable, "-c", "from benchmarks.two_threads import child; child()"]
    output = subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True, text=True).stdout
    return {int(rows): float(took) for rows, took in (line.split() for line in output.splitlines())}


def child() -> None:
    weights = [torch.randn(size, dtype=torch.bfloat16, requires_grad=True) for size in SHAPES * LAYERS]
    for rows, repeats in REPEATS.items():
        inputs = {width: torch.randn(rows, width, dtype=torch.bfloat16) for width in (576, 1536)}
        one_pass(weights, inputs)
        start = time.perf_counter()
        for _ in range(repeats):
            one_pass(weights, inputs)
        print(rows, (time.perf_counter() - start) / repeats)


def one_pass(weights: list[torch.Tensor], inputs: dict[int, torch.Tensor]) -> None:
    """Multiply, and with many rows compute gradients too."""
    learns = len(inputs[576]) > 64
    with torch.set_grad_enabled(learns):
        for weight in weights:
            product = inputs[len(weight)] @ weight
            activated = rms_norm(silu(product.float()), product.shape[-1:]).mul(product).add(1)
            if learns:
                torch.autograd.grad(activated.sum(), weight)


@contextmanager
def busy_process() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
