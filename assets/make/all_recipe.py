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
    samples: int = 1
    split: str = "pretraining"
    apart: bool = True


# To extend the model, add a line; words of other environments are split into parts, never lost.
SOURCES = (
    Source("textworld", "w2-o3-q4", 80, 3, apart=False),  # few games, since they take long to make
    Source("tw_simple", "tw-simple", 8, 3, apart=False),
    Source("sokoban", "s6-b1", 1500),
    Source("crafting", "d2", 2500),
    Source("search", "h1", 1500, apart=False),
    Source("webshop", "a1-o0", 2000),
    Source("babyai", "GoToLocal", 1000),
    Source("gym", "FrozenLake-v1", 200, 5),
    Source("textworldexpress", "simonsays", 500),
    Source("textarena", "FrozenLake-v0-random", 30),  # long texts: for the words only, as the next
    Source("bfcl", "base", 60, split="train", apart=False),
)
COPYING = Stage("copying", 1500, 0, 0, batches=1, learning_rate=2e-3)
STAGE = Stage("all environments", 14000, 99, 12, batches=2, learning_rate=4e-3, decay=0.5, observation_weight=0.3)


@dataclass(frozen=True)
class AllRecipe:
    """Everything that the weights depend on.

    Training starts from ``model=tiny``, which can follow a goal; ``copying`` is the training on
    random tokens that come back (``copying.py``), which also are the share ``copies`` of the later
    batches. In the share ``with_new_names`` of the transcripts, the share ``renamed`` of the tokens
    that an action copies are other tokens, but for the ``common`` most frequent ones. Of ALFWorld,
    ``houses`` transcripts of its searcher are drawn as for ``model=tiny_alfworld``; ``stage`` is
    their size, and that of the training on all transcripts. Of the tokens that were seen,
    ``seen_share`` have a loss.
    """

    start: str = "asset://tiny"
    sources: tuple[Source, ...] = SOURCES
    experts: tuple[NoisyExpert, ...] = (NoisyExpert(1.0, 0.4), NoisyExpert(0.6, 0.6))
    houses: int = 2000
    copying: Stage = COPYING
    stage: Stage = STAGE
    max_turns: int = 14
    row_tokens: int = 1280
    seen_share: float = 0.3
    copies: float = 0.1
    with_new_names: float = 0.5
    renamed: float = 0.5
    common: int = 150
    vocabulary: int = 3072
    max_length: int = 2048
    seed: int = 0
