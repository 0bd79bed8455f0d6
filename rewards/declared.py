"""What a method declares about itself: what it requires, and which settings it conflicts with.

A method of a slot is a dataclass (``algorithms.slots``). These are attributes of its class, or properties where they depend on
its settings. ``config.checks.methods`` reads them and refuses a run before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

GROUPS = "groups"  # two samples a prompt or more, which are compared
WHOLE_STEP = "whole step"  # all episodes of a step are compared
SYNCHRONOUS = "synchronous steps"  # what is counted are steps of a synchronous trainer
OWN_TURNS = "own turns"  # turns of a group are compared, so no turn is replayed or shared between samples
OWN_ROWS = "own rows"  # an episode has one row, which can take the place of another
Requires = frozenset[str]


@dataclass(frozen=True)
class Conflict:
    """Settings that a method cannot be combined with.

    ``reason`` and ``use`` may name the method's settings (``{method.share}``) and the keys' values (``{0}``), ``use`` also what the
    first fact names (``{fact}``).

    Attributes:
        keys: keys of the config, slots, or facts about a run (``config.checks.facts``). A slot's value is the names chosen there.
        when: called with the method and the keys' values; true if they conflict.
        reason: why, in words that follow ``SLOT=METHOD and KEY=VALUE:``.
        use: what to type instead; by default what the first fact names.
        warns: the run is warned of and starts.
    """

    keys: tuple[str, ...]
    when: Callable[..., bool]
    reason: str
    use: str = "{fact}"
    warns: bool = False
