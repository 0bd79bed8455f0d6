"""The prefixes of a group's episodes, and the episodes that continue them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rollouts.episode import Episode
from rollouts.loop import EpisodeSpec
from rollouts.spec import Branch

CONTINUED = "continued"  # the group's name of continuations, so that they draw other random numbers than the samples


@dataclass(frozen=True)
class Prefix:
    """An episode's first turns; ``key`` is the same for all that begin with the same tokens."""

    key: str
    episode: Episode
    turns: int

    def spec(self, base: EpisodeSpec, number: int) -> EpisodeSpec:
        """Continuation ``number``: it has the turns that are left. Its random numbers are those of every prefix's continuation
        ``number``: where two play alike they also end alike, and their difference is no noise."""
        prompt = f"{base.task.key} {CONTINUED}"
        return replace(base, sample=number, prompt=prompt, branch=self._branch() if self.turns else None)

    def _branch(self) -> Branch:
        turns = self.episode.turns
        return Branch(self.episode.sample, tuple(turns[: self.turns]), turns[self.turns].observation)


def prefixes(episodes: Iterable[Episode]) -> dict[str, Prefix]:
    """Of every turn of the episodes; those that several share once."""
    found: dict[str, Prefix] = {}
    for episode in episodes:
        for turns, key in enumerate(keys(episode)):
            found.setdefault(key, Prefix(key, episode, turns))
    return found


def keys(episode: Episode) -> list[str]:
    """The key of the prefix before each of its turns."""
    digest = hashlib.blake2b(digest_size=12)
    found = []
    for turn in episode.turns:
        found.append(digest.hexdigest())
        digest.update(json.dumps([turn.action, *turn.action_ids]).encode())
    return found


def wanted(known: Mapping[str, Prefix], values: Mapping[str, Sequence[float]], k: int) -> list[tuple[Prefix, int]]:
    """Continuations that are still to be played: (prefix, number)."""
    return [(prefix, number) for key, prefix in known.items() for number in range(len(values.get(key, ())), k)]
