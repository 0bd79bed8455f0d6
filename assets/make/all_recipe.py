"""Everything that the weights of ``model=tiny_all`` depend on."""

from __future__ import annotations

from dataclasses import dataclass

from turngrid.assets.make.alfworld_recipe import Stage
from turngrid.assets.make.tiny_recipe import NoisyExpert

# Games of a run that pre-training must not have, where seeds may repeat games.
RUN_GAMES = {"test": 200, "validation": 100, "demonstrations": 200}


@dataclass(frozen=True)
class Source:
    """Transcripts of one task: ``samples`` of each of ``games`` games.

    Args:
        split: whose games are played; no run tests on them.
        apart: the games of ``RUN_GAMES`` are listed first, and skipped.
    """

    env: str
    task: str
    games: int
    samples: int = 2
    split: str = "pretraining"
    apart: bool = True


# To extend the model, add a line; words of other environments are split into parts, never lost.
SOURCES = (
    Source("textworld", "w2-o3-q4", 80, 6, apart=False),
    Source("tw_simple", "tw-simple", 8, 6, apart=False),
    Source("sokoban", "s6-b1", 800),
    Source("crafting", "d2", 700, apart=False),
    Source("search", "h1", 600, apart=False),
    Source("webshop", "a1-o0", 600, apart=False),
    Source("babyai", "GoToLocal", 700),
    Source("gym", "FrozenLake-v1", 200, 5),
    Source("textarena", "FrozenLake-v0-random", 30, 1),  # long texts: for the words only, as the next
    Source("bfcl", "base", 60, 1, split="train", apart=False),
)
STAGE = Stage("all environments", 2600, 99, 12, batches=2, decay=0.5, observation_weight=0.3)


@dataclass(frozen=True)
class AllRecipe:
    """Everything that the weights depend on.

    Training starts from ``model=tiny``, which can follow a goal. Of ALFWorld, ``houses``
    transcripts of its searcher are drawn as for ``model=tiny_alfworld``; ``stage`` is their size,
    and that of the training on all transcripts. Of the tokens that were seen, ``seen_share`` have
    a loss.
    """

    start: str = "asset://tiny"
    sources: tuple[Source, ...] = SOURCES
    experts: tuple[NoisyExpert, ...] = (NoisyExpert(1.0, 0.4), NoisyExpert(0.6, 0.6))
    houses: int = 1500
    stage: Stage = STAGE
    max_turns: int = 14
    row_tokens: int = 1280
    seen_share: float = 0.3
    vocabulary: int = 3072
    max_length: int = 2048
    seed: int = 0
