"""The README beside the weights: what they are, what they learned from, how to remake them, how often it wins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from transformers import AutoModelForCausalLM

from experiments.tiny_model.recipe import Recipe
from records.models.loading import load_whole
from records.statistics import Interval

CARD = """\
# The tiny model

A causal language model of {parameters:,} parameters (Qwen3 type: hidden 64, 4 layers, 4 heads, intermediate 192, tied
embeddings, fp32) with a lower-case byte-pair tokenizer of {vocabulary:,} entries and the ChatML template, without a
system message. It knows the words and the commands of small TextWorld games but pursues their goals only now and then,
as an untuned chat model does, so demonstrations and RL both have something to show. It is of no use elsewhere.

## Trained on
{recipe.games:,} TextWorld games `{recipe.task}` (our catalogue's pre-training split, seeds from 100001; listed in
`pretraining_games.json`; a run in an environment that this file does not name is warned of), played for at most {recipe.max_turns} turns by policies that follow the expert plan
at each turn with the chance given, and else draw a possible command. The policy is drawn for each transcript:

| phase | games | transcripts of each | policies: chance to follow the plan (share of the transcripts) | epochs | learning rate |
|---|---|---|---|---|---|
{phases}

The first phase teaches what there is to know, the second how rarely it is put to use.

The text is exactly what an agent sees in training; no other text, no other model. AdamW with warm-up and cosine,
batches of {train.batch_tokens:,} tokens, next-token loss on the actions and {train.observation_weight} of it on the
observations; in every epoch each thing of an episode is renamed throughout with chance {train.rename_chance}.
{minutes:.0f} core-minutes of training.

## Remake
    python -m experiments.tiny_model

makes games, tokenizer, weights and this page from nothing.

## How often it wins
Validation games of `{recipe.task}` (not test games), 12 turns, one sample a game, {games} games, Wilson 95 %:

| temperature | success, % |
|---|---|
{rows}
"""


def card(recipe: Recipe, folder: Path, measured: Mapping[float, Interval], games: int, train_seconds: float) -> str:
    phases = []
    for phase in recipe.phases:
        experts = ", ".join(f"{expert.expert_share:g} ({expert.weight:.0%})" for expert in phase.experts)
        trained = f"{phase.train.epochs} | {phase.train.learning_rate}"
        phases.append(f"| {phase.name} | {phase.games:,} | {phase.samples_per_game} | {experts} | {trained} |")
    told = {"recipe": recipe, "phases": "\n".join(phases), "train": recipe.phases[0].train}
    return filled(CARD, folder, measured, games=games, minutes=train_seconds / 60, **told)


def filled(page: str, folder: Path, measured: Mapping[float, Interval], **told: object) -> str:
    """The page for the model in ``folder``; ``measured`` maps a temperature (0: greedy) to its success."""
    model = load_whole(AutoModelForCausalLM, str(folder))
    rows = [f"| {temperature or 'greedy'} | {interval.percent()} |" for temperature, interval in measured.items()]
    size = {"parameters": model.num_parameters(), "vocabulary": model.config.vocab_size}
    return page.format(**size, rows="\n".join(rows), **told)
