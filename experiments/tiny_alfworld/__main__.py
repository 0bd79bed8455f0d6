"""Remake ``model=tiny_alfworld`` from the weights of ``model=tiny``: tokenizer, transcripts, training, measurement, card.

    python -m experiments.tiny_alfworld [--out FOLDER]

About ten minutes on one idle core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import torch

from envs.bar import ticking_bar
from envs.registry import make_environment
from experiments.tiny_alfworld.play import transcript
from experiments.tiny_alfworld.recipe import Recipe
from experiments.tiny_alfworld.train import pretrain, with_tokenizer
from experiments.tiny_model.card import filled
from experiments.tiny_model.measure import measure
from experiments.tiny_model.tokenizer import train_tokenizer
from experiments.tiny_model.train import save
from records.models.locate import PRETRAINING, resolve_model
from records.statistics import Interval

TASK = "one_type"
CARD = """\
# The tiny model for ALFWorld

A causal language model of {parameters:,} parameters (the shape of `model=tiny`) with a lower-case byte-pair tokenizer of
{vocabulary:,} entries and the ChatML template. It knows the words and commands of ALFWorld and is of no use elsewhere.

## Trained on
The weights of `model=tiny`, then transcripts of our ALFWorld expert that plays from what is visible (`env.expert=searcher`),
each in a game of its own, drawn in the floor plans for training, by seeds beyond those of every split. Of the tasks
{share:.0%} are of the first type in any case, the others of any. At some turns something else was done instead, which
is read but not learned. A new token begins as the mean of the tokens that its text was before.

| stage | places in a house, at most | turns, at most | steps | tokens a step, at most |
|---|---|---|---|---|
{stages}

AdamW at {stage.learning_rate:g}, which falls at the end of the last stage; next-token loss on the expert's actions and on what
was seen. {minutes:.0f} core-minutes.

## Remake
    python -m experiments.tiny_alfworld

makes tokenizer, weights and this page.

## How often it wins
Validation games of `one_type`, 24 turns, one sample a game, {games} games, Wilson 95 %:

| temperature | success, % |
|---|---|
{rows}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(str(files("assets").joinpath("tiny_alfworld"))))
    parser.add_argument("--measure-games", type=int, default=200, help="validation games played at the end")
    arguments, recipe = parser.parse_args(), Recipe()
    torch.set_num_threads(1)  # two threads are slower on matrices this small, and one is reproducible
    seconds = build(recipe, arguments.out)
    measured = measure(arguments.out, TASK, arguments.measure_games, "alfworld")
    page = card(recipe, arguments.out, measured, arguments.measure_games, seconds)
    (arguments.out / "README.md").write_text(page)


def build(recipe: Recipe, out: Path) -> float:
    """Train the tokenizer, on houses of all sizes, then the model through all stages; save both to ``out``. Returns the
    core-seconds."""
    start = time.process_time()
    style = make_environment("alfworld").prompt
    with ticking_bar(iterable=range(recipe.tokenizer_transcripts), desc="tokenizer", unit="transcript") as seeds:
        played = (transcript(style, recipe.stages[-1], seed) for seed in seeds)
        texts = [f"{message['role']}\n{message['content']}" for play in played for message in play.messages]
    tokenizer = train_tokenizer(texts, recipe.vocabulary, recipe.max_length)
    model = with_tokenizer(resolve_model(recipe.start, out), tokenizer, recipe.seed)
    for stage in recipe.stages:
        pretrain(model, tokenizer, style, stage)
    save(model, tokenizer, out)
    (out / PRETRAINING).write_text(json.dumps({"environments": ["alfworld"]}))
    return time.process_time() - start


def card(recipe: Recipe, folder: Path, measured: Mapping[float, Interval], games: int, train_seconds: float) -> str:
    """The README beside the weights: what they are, what they learned from, how to remake them, how well they play."""
    stages = [
        f"| {stage.name} | {stage.max_places if stage.max_places < 99 else 'any number'} | {stage.max_turns} | {stage.steps} "
        f"| {stage.batches * stage.batch_tokens:,} |"
        for stage in recipe.stages
    ]
    told = {"share": recipe.stages[0].first_type, "stages": "\n".join(stages), "stage": recipe.stages[0]}
    return filled(CARD, folder, measured, games=games, minutes=train_seconds / 60, **told)


if __name__ == "__main__":
    main()
