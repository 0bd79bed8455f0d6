"""Limits of one value of the config: a range of numbers, some words, or a type.

``problem(value)`` of a limit returns words that follow ``KEY=VALUE``, such as "must be a whole
number from 1 to 512", or None.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turngrid.envs.utils.names import meant

WORD = re.compile(r"(?![\d.+-]+$)\S+")
TWO_NUMBERS = re.compile(r"\d+(\.\d+)?_\d+(\.\d+)?")
# Type -> its name in messages, and the Python types that are accepted for it, its own one last
TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
    "str": ("text", (int, float, str)),  # a name such as 7 is read as a number
    "list": ("a list", (list,)),
    "dict": ("a node, whose keys are set one by one as KEY.NAME=VALUE", (dict,)),
    "null": ("null", (type(None),)),
}


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included."""

    low: float
    high: float = math.inf
    whole: bool = False
    null: bool = False
    each: bool = False  # the value is a list of such numbers

    def problem(self, value: Any) -> str | None:
        if value is None and self.null:
            return None
        fits = isinstance(value, list) and all(map(self._holds, value)) if self.each else self._holds(value)
        return None if fits else f"must be {self}"

    def _holds(self, value: Any) -> bool:
        number = type(value) is int or (type(value) is float and not self.whole)  # a bool is an int, but no number
        return number and self.low <= value <= self.high and _countable(value)

    def __str__(self) -> str:
        kind = "a list of numbers" if self.each else "a whole number" if self.whole else "a number"
        words = f"{kind} from {_plain(self.low)} to {_plain(self.high)}"
        words = words if self.high < math.inf else f"{kind} of at least {_plain(self.low)}"
        return f"{words} or null" if self.null else words


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e12 else f"{number:g}"


@dataclass(frozen=True)
class Words:
    """One of some words."""

    known: tuple[str | None, ...]
    null: bool = False
    each: bool = False  # the value is a list of such words
    instead: Mapping[str, str] = field(default_factory=dict)  # wrong word -> the override to type

    def problem(self, value: Any) -> str | None:
        words = value if isinstance(value, list) else [value]
        unknown = [word for word in words if word not in self.known]
        if (value is None and self.null) or (not unknown and self.each == isinstance(value, list)):
            return None
        wrong = str(unknown[0]) if unknown else ""
        if wrong in self.instead:
            return f"is no choice here; use {self.instead[wrong]}"
        choices = sorted({word or "null" for word in (*self.known, *[None] * self.null)})
        return f"must be {'a list of' if self.each else 'one of'}: {', '.join(choices)}{meant(wrong, choices)}"


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


@dataclass(frozen=True)
class Bounds:
    """A number of at least ``low``, or two positive numbers as ``"LOWER_UPPER"``."""

    low: float

    def problem(self, value: Any) -> str | None:
        if isinstance(value, str) and TWO_NUMBERS.fullmatch(value):
            lower, upper = map(float, value.split("_"))
            fits = 0 < lower <= upper
        else:
            fits = value is None or Range(self.low).problem(value) is None
        return None if fits else f"must be a number of at least {_plain(self.low)}, or LOWER_UPPER, as 0.5_5.0"


@dataclass(frozen=True)
class Types:
    """One of the types named in ``TYPES``, or any; numbers must be finite and have 64 bits."""

    names: frozenset[str] = frozenset()

    def problem(self, value: Any) -> str | None:
        if not _countable(value):
            return "must be a finite number" + ("" if isinstance(value, float) else " of 64 bits")
        if not self.names or any(type(value) in TYPES[name][1] for name in self.names):
            return None
        return f"must be {' or '.join(words for name, (words, _) in TYPES.items() if name in self.names)}"


def _countable(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_countable, value))
    return math.isfinite(value) if isinstance(value, float) else not isinstance(value, int) or abs(value) < 2**63


Limit = Range | Words | Word | Only | Bounds | Types
