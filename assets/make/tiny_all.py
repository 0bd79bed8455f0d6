"""Make ``model=tiny_all``, one model for many environments, from the weights of ``model=tiny``."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from turngrid.assets.make.all_recipe import RUN_GAMES, AllRecipe, Source
from turngrid.assets.make.card import fill_card, measure
from turngrid.assets.make.copying import common_tokens, copied, renamed
from turngrid.assets.make.noisy_transcripts import noisy_episode
from turngrid.assets.make.searcher_transcripts import Transcript, transcript
from turngrid.assets.make.tiny_alfworld import updates, with_tokenizer
from turngrid.assets.make.tokenizer import train_tokenizer
from turngrid.assets.make.train import BUCKET, OTHER, SEEN, Encoder, Row, fit, packed, save
from turngrid.envs.environment import Environment
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.models.locate import PRETRAINING, resolve_model
from turngrid.records.statistics import Interval

MEASURED = ("textworld", "w2-o3-q4")
SHOWN_HEX = 12
CARD = """\
# The tiny model for all environments

A causal language model of {parameters:,} parameters (the shape of `model=tiny`) with a byte-pair tokenizer of
{vocabulary:,} entries, which keeps capitals and splits unknown words down to bytes, and the ChatML template. It knows
the words and commands of the environments below, each a little, and is of no use elsewhere.

## Trained on
The weights of `model=tiny`, then transcripts of our experts in games that no run tests on. The expert acts at each turn
with the chance {experts};
else a possible command is drawn, which is read but not learned.

| environment | task | games | transcripts of each |
|---|---|---|---|
{sources}

First {recipe.copying.steps:,} updates on sequences of random tokens that come back, which teach copying. Then
{recipe.stage.steps:,} on the transcripts and {recipe.copies:.0%} of such rows. In {recipe.with_new_names:.0%} of the
transcripts some words that an action copies are other words throughout. Of a transcript at most
{recipe.max_turns} turns and {recipe.row_tokens:,} tokens were read. AdamW, updates of at most {tokens:,} tokens,
learning rate {recipe.stage.learning_rate:g}, which falls over the last {recipe.stage.decay:.0%}; next-token loss on the
expert's actions and {recipe.stage.observation_weight:g} of it on {recipe.seen_share:.0%} of the tokens that were seen.
{minutes:.0f} core-minutes of training.

## Remake
    python -m assets.make tiny_all

makes games, tokenizer, weights and this page.

## How often it wins
[docs/env.md](../../docs/env.md#the-suite) has every environment. Validation games of `w2-o3-q4`, 12 turns, one sample a
game, {games} games, Wilson 95 %:

| temperature | success, % |
|---|---|
{rows}
"""


def make(out: Path, measure_games: int) -> None:
    """Write weights, tokenizer, list of pre-training games and README to ``out``."""
    recipe = AllRecipe()
    games = {source: pretraining_games(source) for source in recipe.sources}
    transcripts = [each for source, tasks in games.items() for each in played(source, tasks, recipe)]
    style = make_environment("alfworld").prompt
    transcripts += [transcript(style, recipe.stage, seed) for seed in range(recipe.houses)]
    seconds = build(recipe, transcripts, out)
    (out / PRETRAINING).write_text(_listed(games))
    env, task = MEASURED
    success = measure(out, task, measure_games, env)
    (out / "README.md").write_text(card(recipe, out, success, measure_games, seconds))


def environment_of(source: Source) -> Environment:
    return make_environment(source.env, {"id": source.task})  # the key of those whose task is a game's id


def pretraining_games(source: Source) -> list[TaskRef]:
    """Return a source's games; fewer if the environment has no more."""
    catalogue = Catalogue(environment_of(source))
    counts = (RUN_GAMES if source.apart else {}) | {source.split: source.games}
    return catalogue.listings(source.task, counts, at_most=counts)[source.split].tasks


def played(source: Source, tasks: Sequence[TaskRef], recipe: AllRecipe) -> Iterator[Transcript]:
    """Yield ``source.samples`` transcripts of each game."""
    environment = environment_of(source)
    env = environment.new_env(legal=True, expert=True)
    weights = [expert.weight for expert in recipe.experts]
    turns = min(recipe.max_turns, environment.max_turns(source.task))
    for task in tqdm(tasks, desc=f"playing {source.env}", unit="game", mininterval=5):
        for sample in range(source.samples):
            rng = random.Random(f"{recipe.seed}/{source.env}/{task.seed}/{sample}")
            (expert,) = rng.choices(recipe.experts, weights)
            yield noisy_episode(environment, env, task, turns, expert.expert_share, rng)
    env.close()


def build(recipe: AllRecipe, transcripts: Sequence[Transcript], out: Path) -> float:
    """Train tokenizer and model, save both to ``out``, and return the core-seconds of training."""
    texts = (f"{each['role']}\n{each['content']}" for one in transcripts for each in one.messages)
    tokenizer = train_tokenizer(texts, recipe.vocabulary, recipe.max_length, lower=False)
    model = with_tokenizer(resolve_model(recipe.start, out), tokenizer, recipe.seed)
    encoder, rng = Encoder(tokenizer), random.Random(recipe.seed)
    rows = [_thinned(encoder.row(each.messages, each.searched), recipe, rng) for each in transcripts]
    start = time.process_time()
    fit(model, updates(_copies(len(tokenizer), recipe), recipe.copying), 0.0)
    fit(model, updates(_batches(rows, len(tokenizer), recipe), recipe.stage), recipe.stage.observation_weight)
    seconds = time.process_time() - start
    save(model, tokenizer, out)
    return seconds


def _thinned(row: Row, recipe: AllRecipe, rng: random.Random) -> Row:
    """Cut a row to ``row_tokens``; most seen tokens lose their loss, which halves the time."""
    kinds = [OTHER if kind == SEEN and rng.random() >= recipe.seen_share else kind for kind in row.kinds]
    return Row(row.ids[: recipe.row_tokens], kinds[: recipe.row_tokens])


def _copies(vocabulary: int, recipe: AllRecipe) -> Iterator[list[Row]]:
    rng = random.Random(recipe.seed)
    while True:
        yield from packed([copied(vocabulary, rng) for _ in range(BUCKET)], recipe.copying.batch_tokens)


def _batches(rows: Sequence[Row], vocabulary: int, recipe: AllRecipe) -> Iterator[list[Row]]:
    """Yield batches without end, in a new order each time round and with names changed.

    Among them are rows to copy, so that the model does not lose what it learned of them.
    """
    rng, copies, common = random.Random(recipe.seed), _copies(vocabulary, recipe), common_tokens(rows, recipe.common)
    while True:
        order = [
            renamed(row, common, vocabulary, recipe.renamed, rng) if rng.random() < recipe.with_new_names else row
            for row in rng.sample(rows, len(rows))
        ]
        buckets = (order[start : start + BUCKET] for start in range(0, len(order), BUCKET))
        batches = [batch for bucket in buckets for batch in packed(bucket, recipe.stage.batch_tokens)]
        for batch in rng.sample(batches, len(batches)):
            yield next(copies) if rng.random() < recipe.copies else batch


def card(recipe: AllRecipe, folder: Path, success: Mapping[float, Interval], games: int, seconds: float) -> str:
    """Return the README: what the model is, its training data, its success, how to remake it."""
    rows = [f"| {one.env} | {one.task} | {one.games:,} | {one.samples} |" for one in recipe.sources]
    rows.append(f"| alfworld | 85 % of the first type, as for `tiny_alfworld` | {recipe.houses:,} | 1 |")
    experts = " or ".join(f"{one.expert_share:g} ({one.weight:.0%} of the transcripts)" for one in recipe.experts)
    fields = {"experts": experts, "sources": "\n".join(rows), "recipe": recipe}
    tokens = recipe.stage.batches * recipe.stage.batch_tokens
    return fill_card(CARD, folder, success, games=games, minutes=seconds / 60, tokens=tokens, **fields)


def shown(task: TaskRef) -> str:
    """Return a short hash of a game's fingerprint."""
    return hashlib.sha256(task.fingerprint.encode()).hexdigest()[:SHOWN_HEX]


def _listed(games: Mapping[Source, Sequence[TaskRef]]) -> str:
    """Return JSON of the environments that the model knows and of its pre-training games."""
    known = {source.env: sorted(map(shown, tasks)) for source, tasks in games.items()}
    return json.dumps({"environments": sorted([*known, "alfworld"]), "fingerprints": known})
