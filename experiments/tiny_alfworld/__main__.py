"""Remake ``model=tiny_alfworld`` from the weights of ``model=tiny``: tokenizer, transcripts, training, measurement, card.

    python -m experiments.tiny_alfworld [--out FOLDER]

About ten minutes on one idle core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import torch
from tqdm import tqdm

from envs.bar import ticking_bar
from envs.environment import PromptStyle
from envs.registry import make_environment
from experiments.tiny_alfworld.card import card
from experiments.tiny_alfworld.play import transcript
from experiments.tiny_alfworld.recipe import Recipe
from experiments.tiny_alfworld.start import with_tokenizer
from experiments.tiny_alfworld.train import pretrain
from experiments.tiny_model.measure import measure
from experiments.tiny_model.tokenizer import train_tokenizer
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
    """Train the tokenizer, then the model through all stages; save both to ``out``. Returns the core-seconds."""
    start = time.process_time()
    style = make_environment("alfworld").prompt
    with ticking_bar(total=recipe.tokenizer_transcripts, desc="tokenizer", unit="transcript") as bar:
        tokenizer = train_tokenizer(_texts(recipe, style, bar), recipe.vocabulary, recipe.max_length)
    model = with_tokenizer(resolve_model(recipe.start, out), tokenizer, recipe.seed)
    for stage in recipe.stages:
        pretrain(model, tokenizer, style, stage)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)  # written for its owner alone, but others install it
    (out / FILE).write_text(json.dumps({"environments": ["alfworld"]}))
    return time.process_time() - start


def _texts(recipe: Recipe, style: PromptStyle, bar: tqdm) -> Iterator[str]:
    """Of houses of all sizes."""
    for seed in range(recipe.tokenizer_transcripts):
        played = transcript(style, recipe.stages[-1], seed)
        yield from (f"{message['role']}\n{message['content']}" for message in played.messages)
        bar.update()


if __name__ == "__main__":
    main()
