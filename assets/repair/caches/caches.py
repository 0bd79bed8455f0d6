"""Caches of bounded size and bounded age, and a decorator that uses one."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

MISSING = object()


class LruCache:
    """At most ``capacity`` entries; whichever was not used for the longest time makes room."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a cache holds at least one entry")
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        """Looking whether a key is there does not count as using it."""
        return key in self._entries

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The value of a key, which becomes the one used last; ``default`` where there is none."""
        if key not in self._entries:
            self.misses += 1
            return default
        self.hits += 1
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value; the key becomes the one used last, and the oldest entry goes if there are too many."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self.capacity:
            self._entries.popitem(last=False)

    def discard(self, key: Hashable) -> bool:
        """Forget a key; True if it was there."""
        return self._entries.pop(key, MISSING) is not MISSING

    def keys(self) -> list[Hashable]:
        """The keys, the one that would go first in front."""
        return list(self._entries)

    @property
    def hit_rate(self) -> float:
        """The share of ``get`` calls that found something, 0 before the first call."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class TtlCache:
    """Entries live for ``ttl`` seconds after they were put, however often they are read."""

    def __init__(self, ttl: float, clock: Callable[[], float]) -> None:
        self.ttl = ttl
        self._clock = clock
        self._entries: dict[Hashable, tuple[float, Any]] = {}

    def __len__(self) -> int:
        """The number of entries that are still alive."""
        self.purge()
        return len(self._entries)

    def put(self, key: Hashable, value: Any, ttl: float | None = None) -> None:
        """Keep a value for ``ttl`` seconds, or for the cache's own time."""
        life = self.ttl if ttl is None else ttl
        self._entries[key] = (self._clock() + life, value)

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The value of a key that is still alive, else ``default``."""
        expires, value = self._entries.get(key, (None, default))
        if expires is not None and self._clock() >= expires:
            del self._entries[key]
            return default
        return value

    def purge(self) -> int:
        """Forget what is too old; returns how many entries went."""
        now = self._clock()
        old = [key for key, (expires, _) in self._entries.items() if now >= expires]
        for key in old:
            del self._entries[key]
        return len(old)


def memoise(capacity: int = 128) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: remember the last results of a function by its arguments; ``.cache`` is the cache."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        cache = LruCache(capacity)

        @functools.wraps(function)
        def remembered(*args: Any, **kwargs: Any) -> Any:
            key = (args, tuple(sorted(kwargs.items())))
            value = cache.get(key, MISSING)
            if value is MISSING:
                value = function(*args, **kwargs)
                cache.put(key, value)
            return value

        remembered.cache = cache  # type: ignore[attr-defined]
        return remembered

    return decorate
