"""Size of a model and the linear layers that LoRA can adapt, without loading it.

Published models are in ``published.json``; others are read from ``config.json`` and weight headers.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from turngrid.records.models.locate import ModelError, local_folder, resolve_model

# config.json of the models in conf/model whose weights may not be on this machine
FILE = Path(__file__).with_name("published.json")
PUBLISHED: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
LLAMA_LIKE = ("llama", "qwen2", "qwen3")  # model types that our forward passes on CPUs know; SmolLM2 is a llama
PREFIX_BYTES = 4 * 2**30  # cached keys and values on CPUs at most: 186,000 tokens of SmolLM2 in bf16
IN_A_BLOCK = re.compile(r"\.\d+\.(?:.+\.)?(?P<name>[^.]+)\.weight$")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")  # of Qwen's, Mixtral's and DeepSeek's config.json


@dataclass(frozen=True)
class Shape:
    """Shape of a dense decoder with gated MLP (Llama, Qwen).

    ``parameters`` omits norms and biases, under 0.1 %.
    """

    parameters: int
    layers: int
    hidden: int
    vocabulary: int
    head_size: int
    kv_heads: int | None = None  # None: as many as heads

    @property
    def cached_numbers(self) -> int:
        """Number of cached keys and values of one token, over all layers."""
        return 2 * self.layers * (self.kv_heads * self.head_size if self.kv_heads else self.hidden)


def shape_of(path: str) -> Shape | None:
    """Return the shape of the model that ``model.path`` names; None if it is unknown."""
    settings = settings_of(path)
    return from_config(settings) if settings else None


def settings_of(path: str) -> dict[str, Any] | None:
    """Return the model's ``config.json``; None if it is unknown."""
    if path in PUBLISHED:
        return PUBLISHED[path]
    if path.startswith("packaged://"):
        return None
    file = _folder(path) / "config.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _folder(path: str) -> Path:
    """Return the model's folder; of a name of the hub that of its cache, if there is one."""
    folder = Path(resolve_model(path))
    if "://" not in path and local_folder(path) is None:
        from huggingface_hub import try_to_load_from_cache  # slow to import, and few paths are names

        with suppress(ValueError):  # a name that the hub does not allow
            if isinstance(file := try_to_load_from_cache(path, "config.json"), str):
                return Path(file).parent
    return folder


def chat_template(path: str) -> str:
    """Return the text of the files that may hold the model's chat template; "" without any."""
    files = (_folder(path) / name for name in ("chat_template.jinja", "tokenizer_config.json"))
    return "".join(file.read_text(encoding="utf-8") for file in files if file.exists())


def from_config(config: dict[str, Any]) -> Shape | None:
    if has_experts(config):
        return None  # of which it does not describe the sizes
    try:
        layers, hidden, vocabulary = (int(config[k]) for k in ("num_hidden_layers", "hidden_size", "vocab_size"))
        heads, inner = int(config["num_attention_heads"]), int(config["intermediate_size"])
    except KeyError:
        return None  # another kind of model
    groups, size = int(config.get("num_key_value_heads") or heads), int(config.get("head_dim") or hidden // heads)
    attention = 2 * hidden * heads * size + 2 * hidden * groups * size
    tables = 1 if config.get("tie_word_embeddings", True) else 2
    parameters = tables * vocabulary * hidden + layers * (attention + 3 * hidden * inner)
    return Shape(parameters, layers, hidden, vocabulary, size, groups)


def linears(path: str) -> dict[str, int] | None:
    """Return inputs plus outputs of each linear layer by name, summed over all blocks.

    This is an adapter's parameter count per rank. None if it is unknown.
    """
    if config := PUBLISHED.get(path):
        layers, hidden, heads = (int(config[k]) for k in ("num_hidden_layers", "hidden_size", "num_attention_heads"))
        size = int(config.get("head_dim") or hidden // heads)
        query, key = hidden + heads * size, hidden + int(config["num_key_value_heads"]) * size
        each = {"q_proj": query, "k_proj": key, "v_proj": key, "o_proj": query}  # of a Llama or Qwen
        each |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), hidden + int(config["intermediate_size"]))
        return {name: layers * ends for name, ends in each.items()}
    sizes: Counter[str] = Counter()
    for name, shape in tensors_in(_folder(path)):
        if len(shape) == 2 and (block := IN_A_BLOCK.search(name)):
            sizes[block["name"]] += sum(shape)
    return dict(sizes) or None


def has_experts(settings: Mapping[str, Any]) -> bool:
    """Return whether ``config.json`` describes a mixture of experts."""
    return any((settings.get(key) or 0) > 1 for key in EXPERTS)


def tensors_in(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Yield names and shapes of the tensors in a folder's safetensors files.

    Raises:
        ModelError: a file is damaged or incomplete.
    """
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="np") as file:
                names = file.keys()
                yield from [(name, file.get_slice(name).get_shape()) for name in names]
        except SafetensorError as error:
            raise ModelError(f"{path} cannot be read: {error}") from error
