"""Matching paths against patterns as shells and ignore files do."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

SEPARATOR = "/"


class PatternError(ValueError):
    """A pattern that is not closed."""


def expand_braces(pattern: str) -> list[str]:
    """The patterns that ``{a,b}`` stands for, in order; braces may be nested. Without a comma they are kept."""
    start = pattern.find("{")
    if start < 0:
        return [pattern]
    depth = 0
    commas = []
    for index in range(start, len(pattern)):
        char = pattern[index]
        if char == "{":
            depth += 1
        elif char == "," and depth == 1:
            commas.append(index)
        elif char == "}":
            depth -= 1
            if depth == 0:
                return _choices(pattern, start, commas, index)
    raise PatternError(f"a brace of {pattern!r} is not closed")


def _choices(pattern: str, start: int, commas: list[int], end: int) -> list[str]:
    head, tails = pattern[:start], expand_braces(pattern[end + 1 :])
    if not commas:
        return [f"{pattern[: end + 1]}{tail}" for tail in tails]
    edges = [start, *commas, end]
    expanded = []
    for left, right in pairwise(edges):
        for choice in expand_braces(pattern[left + 1 : right]):
            expanded.extend(f"{head}{choice}{tail}" for tail in tails)
    return expanded


def match_name(name: str, pattern: str) -> bool:
    """Match one name, without separators: ``*`` any text, ``?`` any character, ``[a-f]`` one of a set.

    A name that starts with a dot is only matched by a pattern that does.
    """
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return _match(name, 0, pattern, 0)


def _match(name: str, at: int, pattern: str, place: int) -> bool:
    """Walk both texts; after a mismatch let the last star take one character more."""
    star, taken = -1, 0
    while at < len(name):
        step = _one(name[at], pattern, place)
        if place < len(pattern) and pattern[place] == "*":
            star, taken = place, at
            place += 1
        elif step:
            at, place = at + 1, step
        elif star >= 0:
            taken += 1
            at, place = taken, star + 1
        else:
            return False
    return all(char == "*" for char in pattern[place:])


def _one(char: str, pattern: str, place: int) -> int:
    """The place behind the part of the pattern that matches this character, or 0."""
    if place >= len(pattern):
        return 0
    if pattern[place] == "?":
        return place + 1
    if pattern[place] == "[":
        return _in_set(char, pattern, place)
    return place + 1 if pattern[place] == char else 0


def _in_set(char: str, pattern: str, place: int) -> int:
    """Sets list characters and ranges; ``!`` at their start means all others, ``]`` there stands for itself."""
    begin = place + 1
    negated = pattern[begin : begin + 1] == "!"
    if negated:
        begin += 1
    end = pattern.find("]", begin + 1)
    if end < 0:
        raise PatternError(f"a set of {pattern!r} is not closed")
    members = pattern[begin:end]
    found = False
    index = 0
    while index < len(members):
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            found = found or members[index] <= char <= members[index + 2]
            index += 3
        else:
            found = found or members[index] == char
            index += 1
    return end + 1 if found != negated else 0


def match_path(path: str, pattern: str) -> bool:
    """Match a whole path, part by part; ``**`` stands for any number of parts, none included."""
    parts = path.strip(SEPARATOR).split(SEPARATOR)
    return any(_match_parts(parts, choice.strip(SEPARATOR).split(SEPARATOR)) for choice in expand_braces(pattern))


def _match_parts(parts: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        if _match_parts(parts, patterns[1:]):
            return True
        return bool(parts) and not parts[0].startswith(".") and _match_parts(parts[1:], patterns)
    return bool(parts) and match_name(parts[0], patterns[0]) and _match_parts(parts[1:], patterns[1:])


class IgnoreList:
    """Patterns as in an ignore file: the last one that matches decides, and ``!`` takes a path back in.

    A pattern with a separator before its end matches from the root on, others match a name at any depth. What lies in
    an ignored folder is ignored too.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules: list[tuple[str, bool]] = []
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            ignored = not text.startswith("!")
            self._rules.append((self._rooted(text if ignored else text[1:]), ignored))

    @staticmethod
    def _rooted(pattern: str) -> str:
        pattern = pattern.rstrip(SEPARATOR)
        return pattern if SEPARATOR in pattern else f"**/{pattern}"

    def ignores(self, path: str) -> bool:
        """True if the path, or a folder that it lies in, is ignored."""
        parts = path.strip(SEPARATOR).split(SEPARATOR)
        return any(self._decide(SEPARATOR.join(parts[: depth + 1])) for depth in range(len(parts)))

    def _decide(self, path: str) -> bool:
        for pattern, ignored in reversed(self._rules):
            if match_path(path, pattern):
                return ignored
        return False

    def filter(self, paths: Iterable[str]) -> list[str]:
        """The paths that are not ignored, in their order."""
        return [path for path in paths if not self.ignores(path)]
