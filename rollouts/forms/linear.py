"""Every sample from the start of the game, on its own: what a form is, and what holds where it says nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from rollouts.episode import Episode
from rollouts.loop import EpisodeSpec


@dataclass
class Linear:
    """A form's fields are its settings; any number among them may follow a schedule of the step.

    A group plays in rounds: ``specs`` names the first one's episodes, ``next`` those of each further one, until it names none.
    What is drawn comes from ``rng``, which follows from the run's seed, the step, the prompt and the round.

    ``windows``: it goes with ``env.window_turns``. ``compares_turns``: turns of a group may be compared with each other by what
    they answered or by their number. ``whole``: it plays some episodes from the game's start without help, of which success is
    told. ``entropies``: it reads those of the sampled tokens. ``branches``: its episodes may begin with turns of others.
    ``needs_plan``: it takes the expert plan of every game.
    """

    windows: ClassVar[bool] = True
    compares_turns: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    branches: ClassVar[bool] = False
    entropies: ClassVar[bool] = False
    needs_plan: ClassVar[bool] = False

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        """The first round of ``n`` samples of ``base.task`` in ``base.step``; ``base`` is a sample's spec but for its number.

        Raises:
            EnvError: this game cannot be played so.
        """
        return [replace(base, sample=sample) for sample in range(n)]

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        """What is played after ``played``, all of this group in the order of their specs."""
        return []

    def group(self, played: Sequence[Episode], n: int, rng: Random) -> list[Episode]:
        """The ``n`` episodes to learn from in their order, then those that were only played, marked so."""
        return list(played)

    def episodes(self, n: int) -> int:
        """How many a group of ``n`` samples plays at most."""
        return n
