"""verl's FSDP2 engines on a CPU, built as its workers build them."""

from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from verl.trainer.config import CheckpointConfig
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import EngineRegistry

from turngrid import verl_plugin  # noqa: F401 - registers ours

TINY = str(Path(__file__).parents[2] / "assets" / "tiny")


def one_layer(folder: Path) -> str:
    """A model with the shipped one's tokenizer and a quarter of its layers, for tests that ask
    models for a lot."""
    config = AutoConfig.from_pretrained(TINY)
    config.num_hidden_layers, config.layer_types = 1, config.layer_types[:1]
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(folder)
    return str(folder)


def make_engine(
    kind: str = "language_model",
    forward_only: bool = False,
    path: str = TINY,
    heads: int = 1,
    precision: str = "fp32",
    checkpointing: bool = False,
    **model: Any,
) -> Any:
    """``heads``: of a critic; ``model``: more keys of verl's model node."""
    engine = EngineRegistry.new(
        model_type=kind,
        backend="fsdp2",
        model_config=HFModelConfig(
            path=path,
            model_type=kind,
            use_remove_padding=False,
            enable_gradient_checkpointing=checkpointing,
            override_config={"attn_implementation": "sdpa", "value_heads": heads},
            **model,
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2",
            forward_only=forward_only,
            use_torch_compile=False,
            mixed_precision={"param_dtype": precision},
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=10),
        checkpoint_config=CheckpointConfig(save_contents=["model", "optimizer", "extra", "hf_model"]),
    )
    engine.initialize()
    return engine


def batch_of(rows: list[list[int]], **columns: list[list[int]]) -> TensorDict:
    """Rows as the trainer gives them to an engine, with these columns too."""
    positions = [list(range(len(row))) for row in rows]
    columns = {"input_ids": rows, "position_ids": positions, **columns}
    return TensorDict({name: jagged(column) for name, column in columns.items()}, batch_size=len(rows))


def jagged(rows: list[list[int]] | list[list[float]]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)
