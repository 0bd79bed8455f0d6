"""The base class of rollout forms, and the rounds in which a group runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from turngrid.rewards.declared import Method
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.seeds import derive_seed
from turngrid.rollouts.spec import EpisodeSpec

PlayRound = Callable[[Sequence[EpisodeSpec]], Awaitable[Sequence[Episode | BaseException]]]


@dataclass(kw_only=True)
class Linear(Method):
    """Base class; the fields of a form are its settings, and numbers may follow a schedule.

    A group runs in rounds: ``specs`` returns the first round's episodes, ``next`` those of each
    further round, until it returns none. ``rng`` depends on the run's seed, step, prompt and round.

    Attributes:
        windows: whether it may be combined with ``env.window_turns``.
        compares_turns: whether turns of a group may be compared by observation or by number.
        whole: whether some episodes run from the start without help; success is reported of these.
        branches: whether episodes may begin with turns of others.
        entropies: whether it reads the entropies of sampled tokens.
        several_rows: whether an episode may have several rows without a window.
        several_plays: whether an episode may have several attempts at its game.
        needs_plan: whether it needs the expert plan of every game.
        sides: episodes of one sample at most: 2 if both seats of a match are trained on.
    """

    windows: ClassVar[bool] = True
    compares_turns: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    branches: ClassVar[bool] = False
    entropies: ClassVar[bool] = False
    several_rows: ClassVar[bool] = False
    several_plays: ClassVar[bool] = False
    needs_plan: ClassVar[bool] = False
    sides: ClassVar[int] = 1

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        """Return the first round's specs. ``base`` has the values that all samples share.

        Raises:
            EnvError: this strategy cannot run this game.
        """
        return [replace(base, sample=sample) for sample in range(n)]

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        """Return the specs of the next round, or none.

        Args:
            played: finished episodes in the order of their specs.
        """
        return []

    def group(self, played: Sequence[Episode], n: int, rng: Random) -> list[Episode]:
        """Return the ``n`` episodes to train on, in order, then the others, marked as untrained."""
        return list(played)

    def keeps(self, step: int) -> bool:
        """Return whether the weights at the start of ``step`` are kept, as a later opponent."""
        return False

    def episodes(self, n: int) -> int:
        """Return the maximum number of episodes that a group of ``n`` samples runs."""
        return n


class GroupFailed(RuntimeError):
    """Episodes of a round failed; no episode of the group is trained on."""

    def __init__(self, causes: Sequence[BaseException], of: int) -> None:
        super().__init__(f"{len(causes)} of {of} samples failed, first: {causes[0]!r}")
        self.first = causes[0]


async def play_group(form: Linear, base: EpisodeSpec, n: int, run_seed: int, play: PlayRound) -> list[Episode]:
    """Return the group's ``n`` episodes to train on, then those that are not trained on.

    Raises:
        GroupFailed: an episode failed in every attempt; the others of its round have ended.
    """
    played: list[Episode] = []
    specs = form.specs(base, n, _random(run_seed, base, 0))
    while specs:
        played += _whole(await play(specs))
        specs = form.next(played, base, n, _random(run_seed, base, len(played)))
    group = form.group(played, n, _random(run_seed, base, -1))
    return [one for episode in group for one in (episode, *episode.sides)]


def _whole(results: Sequence[Episode | BaseException]) -> list[Episode]:
    episodes = [item for item in results if isinstance(item, Episode)]
    if len(episodes) < len(results):
        raise GroupFailed([item for item in results if isinstance(item, BaseException)], len(results))
    return episodes


def _random(run_seed: int, base: EpisodeSpec, played: int) -> Random:
    return Random(derive_seed("rollout form", run_seed, base.step, base.prompt, played))
