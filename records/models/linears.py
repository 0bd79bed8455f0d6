"""The linear layers in a model's blocks, which LoRA can adapt: from the headers of its weights or, for the names of
``conf/model``, from its shape. Nothing is loaded."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from records.models.locate import resolve_model
from records.models.shape import PUBLISHED

IN_A_BLOCK = re.compile(r"\.\d+\.(?:.+\.)?(?P<name>[^.]+)\.weight$")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")  # of Qwen's, Mixtral's and DeepSeek's config.json


def linears(path: str) -> dict[str, int] | None:
    """Inputs plus outputs of the layers that bear a name, summed over all blocks: what a rank of their adapters costs, in
    numbers. None where neither the weights are on this machine nor a table has them."""
    if path in PUBLISHED:
        return _of_llama(PUBLISHED[path])
    found: Counter[str] = Counter()
    for name, shape in tensors_in(Path(resolve_model(path, Path()))):
        if len(shape) == 2 and (block := IN_A_BLOCK.search(name)):
            found[block["name"]] += sum(shape)
    return dict(found) or None


def has_experts(settings: Mapping[str, Any]) -> bool:
    """Whether ``config.json`` is that of a mixture of experts."""
    return any((settings.get(key) or 0) > 1 for key in EXPERTS)


def _of_llama(settings: Mapping[str, Any]) -> dict[str, int]:
    """Names and sizes of a Llama's or Qwen's layers."""
    layers, hidden, heads = (int(settings[k]) for k in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
    size = int(settings.get("head_dim") or hidden // heads)
    query, key = hidden + heads * size, hidden + int(settings["num_key_value_heads"]) * size
    inner = hidden + int(settings["intermediate_size"])
    each = {"q_proj": query, "k_proj": key, "v_proj": key, "o_proj": query}
    each |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), inner)
    return {name: layers * ends for name, ends in each.items()}


def tensors_in(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Names and shapes in a folder's safetensors files, whose headers are JSON after eight bytes with their length."""
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        yield from ((name, entry["shape"]) for name, entry in header.items() if name != "__metadata__")
