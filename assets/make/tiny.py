"""Make ``model=tiny``: games, transcripts, tokenizer, pre-training, success rates, README."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from turngrid.assets.make.card import fill_card, measure
from turngrid.assets.make.noisy_transcripts import Transcript, phase_transcripts
from turngrid.assets.make.tiny_recipe import Phase, Recipe
from turngrid.assets.make.tokenizer import train_tokenizer
from turngrid.assets.make.train import new_model, pretrain, save
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.statistics import Interval

# What a default run plays; the pre-training split excludes these games.
RUN_GAMES = {"test": 200, "validation": 200, "demonstrations": 100, "train": 400}
CARD = """\
# The tiny model

A causal language model of {parameters:,} parameters (Qwen3 type: hidden 64, 4 layers, 4 heads, intermediate 192, tied
embeddings, fp32) with a lower-case byte-pair tokenizer of {vocabulary:,} entries and the ChatML template, without a
system message. It knows the words and the commands of small TextWorld games but pursues their goals only now and then,
as an untuned chat model does, so demonstrations and RL both have something to show. It is of no use elsewhere.

## Trained on
{recipe.games:,} TextWorld games `{recipe.task}` (our catalogue's pre-training split, seeds from 100001; listed in
`pretraining_games.json`; a run in an environment that this file does not name is warned of), \
played for at most {recipe.max_turns} turns by policies that follow the expert plan
at each turn with the chance given, and else draw a possible command. The policy is drawn for each transcript:

| phase | games | transcripts of each | policies: chance to follow the plan (share of the transcripts) \
| epochs | learning rate |
|---|---|---|---|---|---|
{phases}

The first phase teaches what there is to know, the second how rarely it is put to use.

The text is exactly what an agent sees in training; no other text, no other model. AdamW with warm-up and cosine,
batches of {train.batch_tokens:,} tokens, next-token loss on the actions and {train.observation_weight} of it on the
observations; in every epoch each thing of an episode is renamed throughout with chance {train.rename_chance}.
{minutes:.0f} core-minutes of training.

## Remake
    python -m assets.make tiny

makes games, tokenizer, weights and this page from nothing.

## How often it wins
Validation games of `{recipe.task}` (not test games), 12 turns, one sample a game, {games} games, Wilson 95 %:

| temperature | success, % |
|---|---|
{rows}
"""


def make(out: Path, workers: int | None, measure_games: int) -> None:
    """Write weights, tokenizer, list of pre-training games and README to ``out``."""
    recipe = Recipe()
    tasks = pretraining_tasks(recipe, workers)
    transcripts = [phase_transcripts(tasks, phase, recipe.max_turns, recipe.seed, workers) for phase in recipe.phases]
    seconds = build(recipe, transcripts, out)
    (out / "pretraining_games.json").write_text(_games(tasks))
    success = measure(out, recipe.task, measure_games)
    (out / "README.md").write_text(card(recipe, out, success, measure_games, seconds))


def pretraining_tasks(recipe: Recipe, workers: int | None) -> list[TaskRef]:
    """Return games of the pre-training split; no split of a run contains any of them."""
    catalogue = Catalogue(make_environment("textworld"))
    counts = RUN_GAMES | {"pretraining": recipe.games}
    return catalogue.listings(recipe.task, counts, workers=workers)["pretraining"].tasks


def build(recipe: Recipe, transcripts: list[list[Transcript]], out: Path) -> float:
    """Train tokenizer and model, save both to ``out``, and return the core-seconds of training.

    The tokenizer sees the first phase's transcripts, the model each phase's in turn.
    """
    texts = (f"{each['role']}\n{each['content']}" for messages in transcripts[0] for each in messages)
    tokenizer = train_tokenizer(texts, recipe.vocabulary, recipe.max_length)
    model = new_model(tokenizer, recipe.max_length, recipe.seed)
    start = time.process_time()
    for phase, phase_texts in zip(recipe.phases, transcripts, strict=True):
        pretrain(model, tokenizer, phase_texts, phase.train)
    seconds = time.process_time() - start
    save(model, tokenizer, out)
    return seconds


def card(recipe: Recipe, folder: Path, success: Mapping[float, Interval], games: int, seconds: float) -> str:
    """Return the README: what the model is, its training data, its success, how to remake it."""
    fields = {
        "recipe": recipe,
        "phases": "\n".join(map(_phase_row, recipe.phases)),
        "train": recipe.phases[0].train,
    }
    return fill_card(CARD, folder, success, games=games, minutes=seconds / 60, **fields)


def _phase_row(phase: Phase) -> str:
    experts = ", ".join(f"{each.expert_share:g} ({each.weight:.0%})" for each in phase.experts)
    trained = f"{phase.train.epochs} | {phase.train.learning_rate}"
    return f"| {phase.name} | {phase.games:,} | {phase.samples_per_game} | {experts} | {trained} |"


def _games(tasks: list[TaskRef]) -> str:
    """Return JSON of the environments that the model knows and of its pre-training games.

    ``turngrid.records.models.locate`` reads the first; a test that no other split shares a game,
    the rest.
    """
    games = {
        "environments": sorted({task.env for task in tasks}),
        "seeds": [tasks[0].seed, tasks[-1].seed],
        "fingerprints": sorted(task.fingerprint[:16] for task in tasks),
    }
    return json.dumps(games)
