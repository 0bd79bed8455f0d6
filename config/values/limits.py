"""Limits of one value of the config: a range of numbers, some words, or a type.

``problem(value)`` of a limit returns words that follow ``KEY=VALUE``, such as "must be a whole
number from 1 to 512", or None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from turngrid.envs.utils.names import meant


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included.

    Attributes:
        whole: only whole numbers.
        also: further values with a special meaning, such as -1.
        null: null is allowed.
        each: the value is a list of such numbers.
    """

    low: float
    high: float
    whole: bool = False
    also: tuple[int, ...] = ()
    null: bool = False
    each: bool = False

    def problem(self, value: Any) -> str | None:
        if value is None and self.null:
            return None
        fits = isinstance(value, list) and all(map(self._holds, value)) if self.each else self._holds(value)
        return None if fits else f"must be {self}"

    def _holds(self, value: Any) -> bool:
        if type(value) not in (
            (int,) if self.whole else (int, float)
        ):  # a bool is an int in Python, but not a number here
            return False
        return self.low <= value <= self.high or value in self.also  # NaN is neither below nor above

    def __str__(self) -> str:
        kind = {(True, False): "a whole number", (False, False): "a number"}.get(
            (self.whole, self.each), "a list of numbers"
        )
        words = [f"{kind} from {_plain(self.low)} to {_plain(self.high)}", *map(str, self.also), *["null"] * self.null]
        return " or ".join(words)


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e12 else f"{number:g}"


def whole(low: int, high: int, *also: int, null: bool = False) -> Range:
    return Range(low, high, whole=True, also=also, null=null)


def real(low: float, high: float, null: bool = False) -> Range:
    return Range(low, high, null=null)


def optional(limit: Range) -> Range:
    """Return the same range with null allowed."""
    return replace(limit, null=True)


@dataclass(frozen=True)
class Words:
    """One of some words.

    Attributes:
        null: null is allowed.
        each: the value is a list of such words.
        more: computes further allowed words on demand.
        elsewhere: maps a wrong word to the override to type instead.
    """

    known: tuple[str, ...]
    null: bool = False
    each: bool = False
    more: Callable[[], Sequence[str]] = tuple
    elsewhere: Callable[[Any], str | None] = lambda word: None

    def problem(self, value: Any) -> str | None:
        if value is None and self.null:
            return None
        words = value if isinstance(value, list) else [value]
        unknown = [word for word in words if word not in self.known and word not in self.more()]
        if not unknown and self.each == isinstance(value, list):
            return None
        if unknown and (instead := self.elsewhere(unknown[0])):
            return f"is no choice here; did you mean {instead}?"
        choices = sorted({*self.known, *self.more(), *["null"] * self.null})
        kind = "a list of" if self.each else "one of"
        return f"must be {kind}: {', '.join(choices)}{meant(unknown[0], choices) if unknown else ''}"


@dataclass(frozen=True)
class Word:
    """One word, such as a name: text without blanks that is not a number."""

    def problem(self, value: Any) -> str | None:
        fits = isinstance(value, str) and WORD.fullmatch(value)
        return None if fits else "must be one word that is no number"


@dataclass(frozen=True)
class Only:
    """Exactly one value is allowed; ``reason`` is the reason, or what to type instead."""

    value: Any
    reason: str

    def problem(self, value: Any) -> str | None:
        return None if value == self.value and type(value) is type(self.value) else f"cannot be: {self.reason}"


WORD = re.compile(r"(?![\d.+-]+$)\S+")
MISSING = "???"  # OmegaConf's mark of a missing value


# Type -> its name in messages, and the Python types of values that are accepted for it, its own one
# last
TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
    "str": ("text", (int, float, str)),  # a name such as 7 is read as a number
    "list": ("a list", (list,)),
    "dict": ("a node, whose keys are set one by one as KEY.NAME=VALUE", (dict,)),
    "null": ("null", (type(None),)),
}


def _countable(value: Any) -> bool:
    """Return whether all numbers are finite and have 64 bits."""
    if isinstance(value, list):
        return all(map(_countable, value))
    return math.isfinite(value) if isinstance(value, float) else not isinstance(value, int) or abs(value) < 2**63


@dataclass(frozen=True)
class Types:
    """One of the types named in ``TYPES``, or any if there are none; numbers must be finite and
    have 64 bits.
    """

    names: frozenset[str] = field(default_factory=frozenset)

    def problem(self, value: Any) -> str | None:
        if not _countable(value):
            return "must be a finite number" + ("" if isinstance(value, float) else " of 64 bits")
        allowed = {kind for name in self.names for kind in TYPES[name][1]}
        if not self.names or type(value) in allowed:
            return None
        return f"must be {' or '.join(words for name, (words, _) in TYPES.items() if name in self.names)}"


Limit = Range | Words | Word | Only | Types
