"""Ranges of versions: ``>=1.2, <2``, ``^1.4``, ``~0.3.1``, ``1.x``, alternatives joined by ``||``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from versions import Version, VersionError

_PART = re.compile(r"(\^|~|>=|<=|!=|>|<|=|)\s*(\d+|[x*])(?:\.(\d+|[x*]))?(?:\.(\d+|[x*]))?(-[0-9A-Za-z.-]+)?")
_COMPARE: dict[str, Callable[[Version, Version], bool]] = {
    ">=": lambda version, bound: version >= bound,
    "<=": lambda version, bound: version <= bound,
    ">": lambda version, bound: version > bound,
    "<": lambda version, bound: version < bound,
    "!=": lambda version, bound: version != bound,
    "=": lambda version, bound: version == bound,
}


@dataclass(frozen=True)
class Bound:
    """One comparison with a version."""

    operator: str
    version: Version

    def allows(self, version: Version) -> bool:
        return _COMPARE[self.operator](version, self.version)


class Range:
    """What a requirement allows. Pre-releases are allowed only where a bound names one of the same three numbers."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._choices = [_bounds(choice) for choice in text.split("||")]

    def __contains__(self, version: Version | str) -> bool:
        if isinstance(version, str):
            version = Version.parse(version)
        return any(_allows(bounds, version) for bounds in self._choices)

    def best(self, versions: Iterable[str]) -> str | None:
        """The highest version that is allowed, or None."""
        allowed = [text for text in versions if text in self]
        return max(allowed, key=Version.parse, default=None)


def _allows(bounds: list[Bound], version: Version) -> bool:
    if not all(bound.allows(version) for bound in bounds):
        return False
    if version.is_release:
        return True
    return any(not bound.version.is_release and _numbers(bound.version) == _numbers(version) for bound in bounds)


def _numbers(version: Version) -> tuple[int, int, int]:
    return version.major, version.minor, version.patch


def _bounds(text: str) -> list[Bound]:
    """The comparisons that must all hold, separated by commas."""
    bounds: list[Bound] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise VersionError(f"{part.strip()!r} is not a range")
        operator, *numbers, pre = match.groups()
        given = _given(numbers)
        low = Version(*given, pre=tuple(pre[1:].split("."))) if pre else Version(*(given or [0]))
        bounds.extend(_part_bounds(operator, given, low))
    return bounds


def _given(numbers: list[str | None]) -> list[int]:
    """The numbers up to the first that is missing or a wildcard."""
    given = []
    for number in numbers:
        if number is None or number in ("x", "*"):
            break
        given.append(int(number))
    return given


def _part_bounds(operator: str, given: list[int], low: Version) -> list[Bound]:
    if operator == "^":
        return [Bound(">=", low), Bound("<", _caret_limit(given))]
    if operator == "~":
        return [Bound(">=", low), Bound("<", _next(given[:2]))]
    if operator in ("", "=") and len(given) < 3:
        return [Bound(">=", low), Bound("<", _next(given))] if given else []
    return [Bound(operator or "=", low)]


def _next(given: list[int]) -> Version:
    """The first version beyond all that start with these numbers."""
    return Version(*given[:-1], given[-1] + 1)


def _caret_limit(given: list[int]) -> Version:
    """The first number that is not zero may not change: ^1.2.3 stays below 2.0.0, ^0.2.3 below 0.3.0."""
    for index, number in enumerate(given):
        if number > 0:
            return _next(given[: index + 1])
    return _next(given)
