"""How large a model is, from its ``config.json`` or, for the names of ``conf/model``, from a table: nothing is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records.models.locate import resolve_model

# config.json of the models in conf/model whose weights may not be on this machine
PUBLISHED: dict[str, dict[str, Any]] = {
    "Qwen/Qwen2.5-0.5B-Instruct": {"vocab_size": 151936, "hidden_size": 896, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864, "tie_word_embeddings": True},
    "Qwen/Qwen2.5-1.5B-Instruct": {"vocab_size": 151936, "hidden_size": 1536, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "intermediate_size": 8960, "tie_word_embeddings": True},
    "Qwen/Qwen2.5-7B-Instruct": {"vocab_size": 152064, "hidden_size": 3584, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "tie_word_embeddings": False},
    "Qwen/Qwen3-8B": {"vocab_size": 151936, "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "tie_word_embeddings": False},
    "packaged://smollm2_135m": {"vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536, "tie_word_embeddings": True},
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A dense decoder with gated MLP (Llama, Qwen).

    ``parameters`` leaves out norms and biases, under 0.1 %.
    """

    parameters: int
    layers: int
    hidden: int
    vocabulary: int
    head_size: int
    kv_heads: int | None = None  # None: as many as heads

    @property
    def cached_numbers(self) -> int:
        """Keys and values of one token, all layers."""
        return 2 * self.layers * (self.kv_heads * self.head_size if self.kv_heads else self.hidden)


def shape_of(path: str) -> Shape | None:
    """The shape of the model that ``model.path`` names; None where nothing here says."""
    settings = settings_of(path)
    return from_config(settings) if settings else None


def settings_of(path: str) -> dict[str, Any] | None:
    """The model's ``config.json``; None where it is not known here."""
    if path in PUBLISHED:
        return PUBLISHED[path]
    if path.startswith("packaged://"):
        return None
    file = Path(resolve_model(path, Path())) / "config.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def from_config(config: dict[str, Any]) -> Shape | None:
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
