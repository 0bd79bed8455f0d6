"""Run a group's episodes round by round, as its rollout strategy asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from rollouts.episode import Episode
from rollouts.forms.linear import Linear
from rollouts.loop import EpisodeSpec
from rollouts.seeds import derive_seed

PlayRound = Callable[[Sequence[EpisodeSpec]], Awaitable[Sequence[Episode | BaseException]]]


class GroupFailed(RuntimeError):
    """Episodes of a round failed; no episode of the group is learned from."""

    def __init__(self, causes: Sequence[BaseException], of: int) -> None:
        super().__init__(f"{len(causes)} of {of} samples failed, first: {causes[0]!r}")
        self.first = causes[0]


async def play_group(form: Linear, base: EpisodeSpec, n: int, run_seed: int, play: PlayRound) -> list[Episode]:
    """Return the group's ``n`` episodes to learn from, then those that are not learned from.

    Raises:
        GroupFailed: an episode failed at every attempt; the others of its round have ended.
    """
    played: list[Episode] = []
    specs = form.specs(base, n, _random(run_seed, base, 0))
    while specs:
        played += _whole(await play(specs))
        specs = form.next(played, base, n, _random(run_seed, base, len(played)))
    return form.group(played, n, _random(run_seed, base, -1))


def _whole(results: Sequence[Episode | BaseException]) -> list[Episode]:
    episodes = [item for item in results if isinstance(item, Episode)]
    if len(episodes) < len(results):
        raise GroupFailed([item for item in results if isinstance(item, BaseException)], len(results))
    return episodes


def _random(run_seed: int, base: EpisodeSpec, played: int) -> Random:
    return Random(derive_seed("rollout form", run_seed, base.step, base.prompt, played))
