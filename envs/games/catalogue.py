"""The games of a run: made once, accepted in the order of seeds, the same on each machine."""

from __future__ import annotations

import collections
import hashlib
import itertools
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, Params
from turngrid.envs.games.cache import GameCache, Made, cache_root
from turngrid.envs.games.makers import Makers
from turngrid.envs.types import TaskError, TaskRef

# Rejected seeds in a row after which a split is given up: before its first game, and after it.
_GIVE_UP_AFTER, _RUN_DRY_AFTER = 200, 1000
_AHEAD = 64
REPEATED = "the same game as another seed's"
# The seeds of a split; its games are those of the accepted seeds, in order. If two splits of a run
# contain the same game, the one that comes later here skips it.
SPLITS: dict[str, range] = {
    "test": range(1, 30_001),
    "validation": range(60_001, 100_001),
    "demonstrations": range(40_001, 60_001),
    "train": range(30_001, 40_001),
    "pretraining": range(100_001, 1_000_001),
}


class TooFewGames(TaskError):
    """A split has only ``count`` games; ``more`` is advice on how to get more."""

    def __init__(self, message: str, split: str, count: int, more: str) -> None:
        super().__init__(message)
        self.split, self.count, self.more = split, count, more


@dataclass(frozen=True)
class Listing:
    """The games in the order of their seeds, and each skipped seed with its reason."""

    tasks: list[TaskRef]
    rejected: list[tuple[int, str]]


class Catalogue:
    """The games of one environment. A listing depends only on its arguments, not on the cache."""

    def __init__(self, environment: Environment, cache_dir: Path | str | None = None) -> None:
        self._environment = environment
        self._cache = GameCache(Path(cache_dir) if cache_dir else cache_root(), environment)
        self._cache.sweep()

    def tasks(self, task: str, split: str, count: int, reward: str = "sparse", **how: Any) -> list[TaskRef]:
        """Return the first ``count`` games of a split, as in ``listings``."""
        return self.listings(task, {split: count}, reward, **how)[split].tasks

    def listings(
        self,
        task: str,
        counts: Mapping[str, int],
        reward: str = "sparse",
        workers: int | None = None,
        progress: bool = True,
        at_most: Collection[str] = (),
        avoid: Iterable[str] = (),
    ) -> dict[str, Listing]:
        """List the first games of splits, none of which is in two; make those that the cache lacks.

        Args:
            counts: games by split.
            workers: processes that make games; None for one a core.
            at_most: splits that may have fewer games than their count, but at least one.
            avoid: fingerprints of games to skip; repeated games of a split are skipped too.

        Returns:
            The listings in the order of ``SPLITS``.

        Raises:
            TaskError: unknown task, split or reward.
            TooFewGames: a split cannot be filled.
        """
        if unknown := [split for split in counts if split not in SPLITS]:
            raise TaskError(f"unknown split {unknown[0]!r} (choices: {', '.join(SPLITS)})")
        listings: dict[str, Listing] = {}
        seen = set(avoid)
        splits = sorted(counts, key=list(SPLITS).index)
        with Makers(self._environment, self._cache, workers or len(os.sched_getaffinity(0)), progress) as makers:
            for split in splits:
                listings[split] = self._list(makers, task, split, counts[split], reward, seen, split in at_most)
                seen.update(game.fingerprint for game in listings[split].tasks)
        return listings

    def outlook(
        self, task: str, split: str, count: int, reward: str = "sparse", avoid: Iterable[str] = ()
    ) -> tuple[list[str], int]:
        """Return the fingerprints of those of ``count`` games that are cached, and how many seeds
        are still to try at least. No game is made.

        Raises:
            TaskError: unknown task, split or reward.
        """
        walk = self._walk(task, split, count, reward, avoid)
        return [made.record.fingerprint for _, made in walk.accepted], len(walk.missing)

    def _list(
        self, makers: Makers, task: str, split: str, count: int, reward: str, avoid: Iterable[str], few: bool
    ) -> Listing:
        walk = self._walk(task, split, count, reward, avoid)
        while walk.missing and not walk.hopeless:
            makers.make(walk.params, walk.wanted, f"{self._environment.name} {task} {split}")
            walk.run()
        if len(walk.accepted) < count and not (few and walk.accepted):
            more = self._environment.more_games if REPEATED in dict(walk.rejected).values() else ""
            raise TooFewGames(_unfillable(task, split, count, walk), split, len(walk.accepted), more)
        name = self._environment.name
        games = [made.record.task(name, task, walk.params, seed, split, made.file) for seed, made in walk.accepted]
        return Listing(games, walk.rejected)

    def _walk(self, task: str, split: str, count: int, reward: str, avoid: Iterable[str]) -> _Walk:
        environment = self._environment
        if not environment.offers(reward):
            raise TaskError(f"{environment.name} offers {', '.join(environment.rewards)}, not {reward!r}")
        params = environment.for_split(environment.with_reward(environment.parse_task(task), reward), split)
        listed = environment.seeds(params, split)
        return _Walk(self._cache, params, SPLITS[split] if listed is None else listed, count, frozenset(avoid))


class _Walk:
    """A pass over a split's seeds; a seed that is not cached counts as a game until it is made."""

    def __init__(
        self, cache: GameCache, params: Params, seeds: Sequence[int], count: int, avoid: frozenset[str]
    ) -> None:
        self.params = params
        self._cache, self._avoid, self._seeds, self._count = cache, avoid, seeds, count
        self._entries: dict[int, Made | str] = {}
        self.run()

    def run(self) -> None:
        self.accepted: list[tuple[int, Made]] = []
        self.rejected: list[tuple[int, str]] = []
        self.missing: list[int] = []
        self._dry = 0
        seen = set(self._avoid)
        for seed in self._seeds:
            if len(self.accepted) + len(self.missing) >= self._count or self.hopeless:
                return
            self._sort(seed, self._entry(seed), seen)

    def _sort(self, seed: int, entry: Made | str | None, seen: set[str]) -> None:
        self._dry += 1
        if entry is None:
            self.missing.append(seed)
            self._dry = 0
        elif isinstance(entry, str):
            self.rejected.append((seed, entry))
        elif entry.record.fingerprint in seen:
            self.rejected.append((seed, REPEATED))
        else:
            seen.add(entry.record.fingerprint)
            self.accepted.append((seed, entry))
            self._dry = 0

    def _entry(self, seed: int) -> Made | str | None:
        entry = self._entries.get(seed) or self._cache.get(self.params, seed)
        if entry is not None:
            self._entries[seed] = entry
        return entry

    @property
    def wanted(self) -> list[int]:
        """The missing seeds, and the next ones if many are rejected; surplus games stay cached."""
        ahead = min(_AHEAD, len(self.missing) * len(self.rejected) // max(1, len(self.accepted)))
        after = self._seeds[self._seeds.index(self.missing[-1]) + 1 :]
        unknown = (seed for seed in after if self._entry(seed) is None)
        return self.missing + list(itertools.islice(unknown, ahead))

    @property
    def hopeless(self) -> bool:
        """Return whether too many seeds in a row were rejected."""
        return self._dry >= (_RUN_DRY_AFTER if self.accepted or self.missing else _GIVE_UP_AFTER)


def _unfillable(task: str, split: str, count: int, walk: _Walk) -> str:
    reasons = collections.Counter(reason for _, reason in walk.rejected).most_common(2)
    why = "; ".join(f"{times} x {reason}" for reason, times in reasons)
    found = f"{task}: split {split} has {len(walk.accepted)} games of the {count} asked for"
    return f"{found}; {len(walk.rejected)} seeds rejected ({why})"


def games_hash(tasks: Sequence[TaskRef]) -> str:
    """Return sha256 over the games in order, which identifies an evaluation set."""
    return hashlib.sha256("\n".join(task.sha256 for task in tasks).encode()).hexdigest()
