"""Remake ``model=tiny_alfworld`` from the weights of ``model=tiny``: tokenizer, transcripts, training, measurement, card.

    python -m experiments.tiny_alfworld [--out FOLDER]

About ten minutes on one idle core.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.resources import files
from pathlib import Path

import torch

from envs.bar import ticking_bar
from envs.registry import make_environment
from experiments.tiny_alfworld.card import card
from experiments.tiny_alfworld.play import transcript
from experiments.tiny_alfworld.recipe import Recipe
from experiments.tiny_alfworld.train import pretrain, with_tokenizer
from experiments.tiny_model.measure import measure
from experiments.tiny_model.tokenizer import train_tokenizer
from experiments.tiny_model.train import save
from records.models.locate import resolve_model
from records.models.pretraining import FILE

TASK = "one_type"


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
    (out / FILE).write_text(json.dumps({"environments": ["alfworld"]}))
    return time.process_time() - start


if __name__ == "__main__":
    main()
