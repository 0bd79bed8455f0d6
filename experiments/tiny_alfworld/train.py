"""Pre-training from another model's weights, on what the searcher chose and on what was seen."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM

from envs.environment import PromptStyle
from experiments.tiny_alfworld.play import transcript
from experiments.tiny_alfworld.recipe import Stage
from experiments.tiny_model.train import Encoder, Row, Update, fit, packed

POOL = 64  # transcripts sorted by length together, so that a batch pads little


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


def pretrain(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, style: PromptStyle, stage: Stage) -> None:
    """Train in place."""
    fit(model, _updates(_batches(Encoder(tokenizer), style, stage), stage), stage.observation_weight)


def _updates(batches: Iterator[list[Row]], stage: Stage) -> Iterator[Update]:
    """A warm-up of 50 steps, then the whole learning rate, over the last steps in a line down to a 33rd of it."""
    for step in tqdm(range(stage.steps), desc=stage.name, mininterval=5):
        left = 1 - step / stage.steps
        share = min(1.0, (step + 1) / 50) * (max(0.03, left / stage.decay) if left < stage.decay else 1.0)
        yield stage.learning_rate * share, [next(batches) for _ in range(stage.batches)]


def _batches(encoder: Encoder, style: PromptStyle, stage: Stage) -> Iterator[list[Row]]:
    """Without end."""
    for seed in itertools.count(step=POOL):
        played = [transcript(style, stage, seed + number) for number in range(POOL)]
        batches = packed([encoder.row(play.messages, play.searched) for play in played], stage.batch_tokens)
        random.Random(seed).shuffle(batches)
        yield from batches
