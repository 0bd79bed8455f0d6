"""LoRA in verl's FSDP2 engines: seeded adapters, and merged weights under the model's own names.

verl merges in place, sends bfloat16 whatever precision the trainer uses, and saves under PEFT's
names, which no loader accepts.
"""

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from peft.tuners.lora import Linear, LoraLayer
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor
from verl.utils.device import get_device_id
from verl.utils.fsdp_utils import offload_fsdp_model_to_cpu

from turngrid.records.models.locate import ModelError
from turngrid.records.models.shape import has_experts

ADAPTER = "default"  # PEFT's name of the only adapter
WRAPPER = "base_model.model."  # PEFT's prefix of every parameter name
FOLDER = "lora_adapter"  # folder of the adapter in a checkpoint


def seeded(build: Callable[[Any, Any], Any], engine: Any, module: Any) -> Any:
    """Seed the adapters, and refuse layers that cannot be merged.

    Until verl does both.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(os.environ.get("TURNGRID_SEED", "0")))
        built = build(engine, module)
    if problem := _not_mergeable(built):
        raise ModelError(f"model.lora_rank: {problem}")
    return built


def _not_mergeable(model: Any) -> str | None:
    if has_experts(model.config.to_dict()):
        return "a mixture of experts, whose experts LoRA would leave out"
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLayer) and not (type(layer) is Linear and type(layer.base_layer) is torch.nn.Linear):
            return f"{plain(name)} is no linear layer; model.lora_target_modules chooses others"
    return None


def streamed(engine: Any) -> Iterator[tuple[str, Tensor]]:
    """Send weights one at a time in the trainer's precision, merged in a copy.

    Until verl does both.
    """
    try:
        yield from merged(engine.module.state_dict(), scaling(engine.module), get_device_id())
    finally:
        if engine.is_param_offload_enabled:
            offload_fsdp_model_to_cpu(engine.module)


def merged(tensors: Mapping[str, Tensor], factor: float, device: Any = None) -> Iterator[tuple[str, Tensor]]:
    """Yield merged weights: W + factor x B A for each W with an adapter, other weights unchanged.

    They have the model's own names and dtypes.

    Args:
        tensors: by PEFT's names: W (out, in), A (rank, in), B (out, rank).
        device: where sharded tensors are gathered; None: on their own device.
    """
    for name, tensor in tensors.items():
        if ".lora_" in name:
            continue
        weight, layer = _whole(tensor, device), name.removesuffix("base_layer.weight")
        if layer != name:
            a, b = (_whole(tensors[f"{layer}lora_{half}.{ADAPTER}.weight"], device) for half in "AB")
            weight = weight + factor * (b @ a)
        yield plain(name), weight


def _whole(tensor: Tensor, device: Any = None) -> Tensor:
    placed = tensor.detach() if device is None else tensor.detach().to(device)
    return placed.full_tensor() if isinstance(placed, DTensor) else placed


def plain(name: str) -> str:
    """Return the model's own name of a parameter that PEFT wraps."""
    return name.removeprefix(WRAPPER).replace(".base_layer.", ".")


def is_adapted(model: Any) -> bool:
    return hasattr(model, "peft_config")


def scaling(model: Any) -> float:
    """Return the factor by which an adapter's product B A is multiplied."""
    config = model.peft_config[ADAPTER]
    return config.lora_alpha / config.r


def merged_state(usual: Callable[..., dict[str, Tensor]], model: Any, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
    """Save a checkpoint's ``huggingface/`` merged, under the model's names, for every loader.

    Until verl merges LoRA there.
    """
    state = usual(model, *args, **kwargs)
    return dict(merged(state, scaling(model))) if is_adapted(model) else state


def with_adapter(usual: Callable[..., None], manager: Any, local_path: str | None, *args: Any, **kwargs: Any) -> None:
    """Save the adapter too, in PEFT's format.

    Until verl saves it with FSDP2.
    """
    usual(manager, local_path, *args, **kwargs)
    if local_path and is_adapted(manager.model):
        save_adapter(manager.model, Path(local_path) / FOLDER, leads=manager.rank == 0)


def save_adapter(model: Any, folder: Path, leads: bool) -> None:
    tensors = {name: _whole(tensor) for name, tensor in model.state_dict().items() if ".lora_" in name}
    if not leads:
        return
    config = copy.copy(model.peft_config[ADAPTER])
    config.target_modules, config.inference_mode = sorted(config.target_modules), True  # a set, which JSON cannot store
    config.save_pretrained(str(folder))
    named = {name.replace(f".{ADAPTER}.", "."): tensor.cpu().contiguous() for name, tensor in tensors.items()}
    save_file(named, folder / "adapter_model.safetensors", metadata={"format": "pt"})
