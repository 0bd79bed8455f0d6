"""Ray's ids are random numbers of a generator that is not safe across forks, as its source says: once it has been used, this
process and all copies of it, their later threads included, draw the same ones, and one actor would read another's objects.

``@ray.remote`` above a class draws one. So nothing may be drawn before the fork, and whether anything was is tried out.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

from verl_plugin.replaced import replaced


@contextmanager
def undrawn() -> Iterator[None]:
    """Inside the block, classes become Ray's with ids from the system's random numbers."""
    actor = importlib.import_module("ray.actor")
    ids = actor.ActorClassID
    size = len(ids.nil().binary())
    with replaced(actor, "ActorClassID", SimpleNamespace(from_random=lambda: ids(os.urandom(size)))):
        yield


def differ_in_copies() -> bool:
    """Whether copies of this process draw ids of their own, in the thread that goes on and in a new one: two are made, and asked."""
    ids = importlib.import_module("ray").ActorClassID
    drawn = [_in_a_copy(lambda: ids.from_random().binary()) for _ in range(2)]
    return len({id_ for pair in drawn for id_ in pair}) == 4


def _in_a_copy(draw: Callable[[], bytes]) -> list[bytes]:
    """Two numbers: of the copy's first thread, and of a second one; or less, where that failed."""
    reading, writing = os.pipe()
    copy = os.fork()
    if copy == 0:
        try:
            with ThreadPoolExecutor(1) as thread:
                os.write(writing, draw().hex().encode() + b" " + thread.submit(draw).result().hex().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as told:
        drawn = told.read().split()
    os.waitpid(copy, 0)
    return drawn
