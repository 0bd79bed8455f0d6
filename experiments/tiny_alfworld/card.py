"""The README beside the weights: what they are, what they learned from, how to remake them, how well they play."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments.tiny_alfworld.recipe import Recipe
from experiments.tiny_model.card import filled
from records.statistics import Interval

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
Validation games of `one_type`, 24 turns, one play a game, {games} games, Wilson 95 %:

| temperature | success, % |
|---|---|
{rows}
"""


def card(recipe: Recipe, folder: Path, measured: Mapping[float, Interval], games: int, train_seconds: float) -> str:
    stages = [
        f"| {stage.name} | {stage.max_places if stage.max_places < 99 else 'any number'} | {stage.max_turns} | {stage.steps} "
        f"| {stage.batches * stage.batch_tokens:,} |"
        for stage in recipe.stages
    ]
    told = {"share": recipe.stages[0].first_type, "stages": "\n".join(stages), "stage": recipe.stages[0]}
    return filled(CARD, folder, measured, games=games, minutes=train_seconds / 60, **told)
