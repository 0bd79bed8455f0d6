"""The running average of the policy's weights, by which a pass may score contexts.

It is kept beside the policy in each worker's memory, and saved in every checkpoint.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from verl.utils import tensordict_utils as tu

KEY = "turngrid_average"  # key of a batch's extra_info: the arguments of ``advanced``
NAME = "turngrid_average"  # attribute of the engine
FILE = "average_rank_{}.pt"  # in the policy's folder of a checkpoint


@contextmanager
def weights_of_pass(engine: Any, data: TensorDict) -> Iterator[None]:
    """Run a pass with the average in place of the policy's weights if its batch asks for that."""
    asked = tu.get_non_tensor_data(data, KEY, default=None)
    if not asked:
        yield
        return
    own, average = trained(engine.module), advanced(engine, **asked)
    _exchange(engine.module, own, average)
    try:
        yield
    finally:
        _exchange(engine.module, own, average)


def _exchange(module: torch.nn.Module, own: Sequence[Tensor], average: Sequence[Tensor]) -> None:
    """Swap weights, and drop the whole copies of them that FSDP2 keeps after a forward pass."""
    swap(own, average)
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def trained(module: torch.nn.Module) -> list[Tensor]:
    weights = (weight.data for weight in module.parameters() if weight.requires_grad)
    return [weight.to_local() if hasattr(weight, "to_local") else weight for weight in weights]


def advanced(engine: Any, step: int, decay: float, every: int, copied: int) -> list[Tensor]:
    """Bring the engine's average up to a step and return it; it is kept on the CPU.

    The first pass starts with a copy of the policy.

    Args:
        decay: ``average = decay average + (1 - decay) policy``.
        every: steps between two such changes.
        copied: steps after which the policy is copied again; 0: never.
    """
    own, average = trained(engine.module), getattr(engine, NAME, None)
    if average is None or (copied and step % copied == 0):
        average = [weight.detach().cpu().clone() for weight in own]
    elif step % every == 0:
        for kept, weight in zip(average, own, strict=True):
            kept.lerp_(weight.detach().cpu(), 1 - decay)
    setattr(engine, NAME, average)
    return average


def swap(weights: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for weight, other in zip(weights, others, strict=True):
            kept = weight.detach().clone()
            weight.copy_(other)
            other.copy_(kept)


def saved(usual: Callable[..., None], engine: Any, local_path: str, *args: Any, **kwargs: Any) -> None:
    """Save the average too, if a method uses one.

    Until verl has a teacher that follows the policy.
    """
    usual(engine, local_path, *args, **kwargs)
    if average := getattr(engine, NAME, None):
        torch.save(average, Path(local_path) / FILE.format(engine.rank))


def loaded(usual: Callable[..., None], engine: Any, local_path: str, *args: Any, **kwargs: Any) -> None:
    """Restore the average too.

    Until verl has a teacher that follows the policy.
    """
    file = Path(local_path) / FILE.format(engine.rank)
    average = torch.load(file, weights_only=True) if file.exists() else None  # verl may delete the folder
    usual(engine, local_path, *args, **kwargs)
    setattr(engine, NAME, average)
