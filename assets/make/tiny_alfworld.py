"""Make ``model=tiny_alfworld`` from the weights of ``model=tiny``."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    Qwen3ForCausalLM,
)

from turngrid.assets.make.alfworld_recipe import Recipe, Stage
from turngrid.assets.make.card import fill_card, measure
from turngrid.assets.make.searcher_transcripts import transcript
from turngrid.assets.make.tokenizer import train_tokenizer
from turngrid.assets.make.train import Encoder, Row, Update, fit, packed, save
from turngrid.envs.environment import PromptStyle
from turngrid.envs.registry import make_environment
from turngrid.records.models.locate import PRETRAINING, resolve_model
from turngrid.records.statistics import Interval

TASK = "one_type"
POOL = 64  # transcripts sorted by length together, so that a batch has little padding
CARD = """\
# The tiny model for ALFWorld

A causal language model of {parameters:,} parameters (the shape of `model=tiny`) with a lower-case byte-pair \
tokenizer of
{vocabulary:,} entries and the ChatML template. It knows the words and commands of ALFWorld and is of no use elsewhere.

## Trained on
The weights of `model=tiny`, then transcripts of our ALFWorld expert that plays from what is visible \
(`env.expert=searcher`),
each in a game of its own, drawn in the floor plans for training, by seeds beyond those of every split. Of the tasks
{share:.0%} are of the first type in any case, the others of any. At some turns something else was done instead, which
is read but not learned. A new token begins as the mean of the tokens that its text was before.

| stage | places in a house, at most | turns, at most | steps | tokens a step, at most |
|---|---|---|---|---|
{stages}

AdamW at {stage.learning_rate:g}, which falls at the end of the last stage; next-token loss on the expert's actions \
and on what
was seen. {minutes:.0f} core-minutes.

## Remake
    python -m assets.make tiny_alfworld

makes tokenizer, weights and this page.

## How often it wins
Validation games of `one_type`, 24 turns, one sample a game, {games} games, Wilson 95 %:

| temperature | success, % |
|---|---|
{rows}
"""


def make(out: Path, measure_games: int) -> None:
    """Write weights, tokenizer and README to ``out``."""
    recipe = Recipe()
    seconds = build(recipe, out)
    success = measure(out, TASK, measure_games, "alfworld")
    (out / "README.md").write_text(card(recipe, out, success, measure_games, seconds))


def build(recipe: Recipe, out: Path) -> float:
    """Train the tokenizer on houses of all sizes, then the model through all stages.

    Saves both to ``out`` and returns the core-seconds.
    """
    start = time.process_time()
    style = make_environment("alfworld").prompt
    tokenizer = train_tokenizer(_texts(style, recipe), recipe.vocabulary, recipe.max_length)
    model = with_tokenizer(resolve_model(recipe.start, out), tokenizer, recipe.seed)
    encoder = Encoder(tokenizer)
    for stage in recipe.stages:
        fit(model, updates(_batches(encoder, style, stage), stage), stage.observation_weight)
    save(model, tokenizer, out)
    (out / PRETRAINING).write_text(json.dumps({"environments": ["alfworld"]}))
    return time.process_time() - start


def _texts(style: PromptStyle, recipe: Recipe) -> Iterator[str]:
    for seed in tqdm(range(recipe.tokenizer_transcripts), desc="tokenizer", unit="transcript"):
        for message in transcript(style, recipe.stages[-1], seed).messages:
            yield f"{message['role']}\n{message['content']}"


def with_tokenizer(folder: str, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Load the model in ``folder`` and change its vocabulary to ``tokenizer``'s.

    A token of both vocabularies keeps its embedding. A new token gets the mean embedding of the
    tokens that the old tokenizer splits it into, times the root of their number, plus noise.
    """
    model = AutoModelForCausalLM.from_pretrained(folder).float()
    old = AutoTokenizer.from_pretrained(folder)
    before = model.get_input_embeddings().weight.data.clone()
    known = old.get_vocab()
    model.resize_token_embeddings(len(tokenizer))
    after = model.get_input_embeddings().weight.data
    noise = 0.1 * before.std() * torch.randn(after.shape, generator=torch.Generator().manual_seed(seed))
    for token, index in tokenizer.get_vocab().items():
        if token in known:
            after[index] = before[known[token]]
        else:
            pieces = old.encode(tokenizer.decode([index]), add_special_tokens=False)
            after[index] = before[pieces].mean(0) * len(pieces) ** 0.5 + noise[index]
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    return model


def updates(batches: Iterator[list[Row]], stage: Stage) -> Iterator[Update]:
    """Yield updates: 50 steps of linear warm-up, a constant rate, then a linear decay to a 33rd."""
    for step in tqdm(range(stage.steps), desc=stage.name, mininterval=5):
        left = 1 - step / stage.steps
        share = min(1.0, (step + 1) / 50) * (max(0.03, left / stage.decay) if left < stage.decay else 1.0)
        yield stage.learning_rate * share, [next(batches) for _ in range(stage.batches)]


def _batches(encoder: Encoder, style: PromptStyle, stage: Stage) -> Iterator[list[Row]]:
    """Yield batches of fresh transcripts without end."""
    for seed in itertools.count(step=POOL):
        drawn = [transcript(style, stage, seed + number) for number in range(POOL)]
        batches = packed([encoder.row(each.messages, each.searched) for each in drawn], stage.batch_tokens)
        random.Random(seed).shuffle(batches)
        yield from batches


def card(recipe: Recipe, folder: Path, success: Mapping[float, Interval], games: int, seconds: float) -> str:
    """Return the README: what the model is, its training data, its success, how to remake it."""
    first = recipe.stages[0]
    stages = "\n".join(map(_stage_row, recipe.stages))
    fields = {"share": first.first_type, "stages": stages, "stage": first}
    return fill_card(CARD, folder, success, games=games, minutes=seconds / 60, **fields)


def _stage_row(stage: Stage) -> str:
    places = stage.max_places if stage.max_places < 99 else "any number"
    tokens = stage.batches * stage.batch_tokens
    return f"| {stage.name} | {places} | {stage.max_turns} | {stage.steps} | {tokens:,} |"
