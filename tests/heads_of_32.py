"""A model like ``assets/tiny`` that vLLM's CPU kernels can run: they start at heads of 32 numbers, and tiny's have 16."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

TINY = Path(__file__).parents[1] / "assets" / "tiny"


def model_with_heads_of_32(folder: Path) -> Path:
    """Random weights, always the same; tiny's tokenizer and generation config. Returns ``folder``."""
    shutil.copytree(TINY, folder, dirs_exist_ok=True)
    config = AutoConfig.from_pretrained(TINY, head_dim=32, num_attention_heads=2, num_key_value_heads=2)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    return folder
