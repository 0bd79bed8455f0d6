"""Independent samples from the start of the game; the base class of rollout strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from rewards.declared import Card, Method
from rollouts.episode import Episode
from rollouts.loop import EpisodeSpec


@dataclass(kw_only=True)
class Linear(Method):
    """Base class; the fields of a strategy are its settings, and numbers may follow a schedule.

    A group runs in rounds: ``specs`` returns the first round's episodes, ``next`` those of each
    further round, until it returns none. ``rng`` depends on the run's seed, step, prompt and round.

    Attributes:
        windows: may be combined with ``env.window_turns``.
        compares_turns: turns of a group may be compared by observation or by number.
        whole: some episodes run from the game's start without help; success is reported of these.
        branches: episodes may begin with turns of others.
        entropies: reads the entropies of sampled tokens.
        needs_plan: needs the expert plan of every game.
    """

    windows: ClassVar[bool] = True
    compares_turns: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    branches: ClassVar[bool] = False
    entropies: ClassVar[bool] = False
    needs_plan: ClassVar[bool] = False
    card: ClassVar[Card] = Card("samples each episode of a prompt from the start of its game (default)")

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        """Return the first round of ``n`` samples; ``base`` is a sample's spec but for its number.

        Raises:
            EnvError: this strategy cannot run this game.
        """
        return [replace(base, sample=sample) for sample in range(n)]

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        """Return the next round, given the group's finished episodes in the order of their specs."""
        return []

    def group(self, played: Sequence[Episode], n: int, rng: Random) -> list[Episode]:
        """Return the ``n`` episodes to learn from, in order, then the others, marked untrained."""
        return list(played)

    def episodes(self, n: int) -> int:
        """Return how many episodes a group of ``n`` samples runs at most."""
        return n
