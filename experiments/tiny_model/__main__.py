"""Remake the tiny model from nothing: games, transcripts, tokenizer, pre-training, measurement, card.

    python -m experiments.tiny_model [--out FOLDER] [--workers N]

About half an hour on two idle cores, ten minutes of it for games, which stay in the cache.
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.resources import files
from pathlib import Path

import torch

from envs.catalogue import Catalogue
from envs.registry import make_environment
from envs.types import TaskRef
from experiments.tiny_model.card import card
from experiments.tiny_model.measure import measure
from experiments.tiny_model.recipe import Recipe
from experiments.tiny_model.tokenizer import train_tokenizer
from experiments.tiny_model.train import new_model, pretrain, save
from experiments.tiny_model.transcripts import Transcript, phase_transcripts

RUN_GAMES = {"test": 200, "validation": 200, "demonstrations": 100, "train": 400}  # what default runs play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(str(files("assets").joinpath("tiny"))))
    parser.add_argument("--workers", type=int, help="processes that make games (all cores)")
    parser.add_argument("--measure-games", type=int, default=200, help="validation games played at the end")
    arguments, recipe = parser.parse_args(), Recipe()
    torch.set_num_threads(1)  # two threads are slower on matrices this small, and one is reproducible
    tasks = pretraining_tasks(recipe, arguments.workers)
    transcripts = [
        phase_transcripts(tasks, phase, recipe.max_turns, recipe.seed, arguments.workers) for phase in recipe.phases
    ]
    seconds = build(recipe, transcripts, arguments.out)
    (arguments.out / "pretraining_games.json").write_text(_games(tasks))
    measured = measure(arguments.out, recipe.task, arguments.measure_games)
    (arguments.out / "README.md").write_text(card(recipe, arguments.out, measured, arguments.measure_games, seconds))


def pretraining_tasks(recipe: Recipe, workers: int | None) -> list[TaskRef]:
    """Games of the pre-training split, none of which is in the splits of a run: about one in a thousand would be."""
    catalogue = Catalogue(make_environment("textworld"))
    counts = RUN_GAMES | {"pretraining": recipe.games}
    return catalogue.listings(recipe.task, counts, workers=workers)["pretraining"].tasks


def build(recipe: Recipe, transcripts: list[list[Transcript]], out: Path) -> float:
    """Train the tokenizer on the first phase's transcripts, the model on each phase's in turn; save both to ``out``.

    Returns the core-seconds of training.
    """
    texts = (f"{message['role']}\n{message['content']}" for play in transcripts[0] for message in play)
    tokenizer = train_tokenizer(texts, recipe.vocabulary, recipe.max_length)
    model = new_model(tokenizer, recipe.max_length, recipe.seed)
    start = time.process_time()
    for phase, played in zip(recipe.phases, transcripts, strict=True):
        pretrain(model, tokenizer, played, phase.train)
    seconds = time.process_time() - start
    save(model, tokenizer, out)
    return seconds


def _games(tasks: list[TaskRef]) -> str:
    """Where the model is at home (``records.models.locate``), and what a test needs to show that no other split shares a game
    with pre-training."""
    environments = sorted({task.env for task in tasks})
    seeds = [tasks[0].seed, tasks[-1].seed]
    return json.dumps(
        {
            "environments": environments,
            "seeds": seeds,
            "fingerprints": sorted(task.fingerprint[:16] for task in tasks),
        }
    )


if __name__ == "__main__":
    main()
