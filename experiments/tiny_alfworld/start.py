"""The weights to begin with: another model's, with embeddings for a tokenizer of other words."""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM


def with_tokenizer(folder: str, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """The model in ``folder``, which reads and writes ``tokenizer``'s tokens from now on.

    A token that both have keeps its embedding. A new one gets the mean of those that its text was split into, scaled to
    their length, and a little noise, so that no two words are alike.
    """
    model, old = AutoModelForCausalLM.from_pretrained(folder).float(), AutoTokenizer.from_pretrained(folder)
    before = model.get_input_embeddings().weight.data.clone()
    known = old.get_vocab()
    model.resize_token_embeddings(len(tokenizer))
    after = model.get_input_embeddings().weight.data
    noise = 0.1 * before.std() * torch.randn(after.shape, generator=torch.Generator().manual_seed(seed))
    for token, place in tokenizer.get_vocab().items():
        if token in known:
            after[place] = before[known[token]]
        else:
            pieces = old.encode(tokenizer.decode([place]), add_special_tokens=False)
            after[place] = before[pieces].mean(0) * len(pieces) ** 0.5 + noise[place]
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    return model
