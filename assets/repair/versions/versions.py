"""Semantic versions (semver.org 2.0.0): reading, ordering and counting up."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z.-]+))?"
)


class VersionError(ValueError):
    """Text that is no version, or no range of versions."""


@functools.total_ordering
@dataclass(frozen=True, eq=False)
class Version:
    """``pre`` are the dotted parts of a pre-release (1.0.0-rc.1 has rc and 1); ``build`` does not count in comparisons."""

    major: int
    minor: int = 0
    patch: int = 0
    pre: tuple[str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read ``MAJOR.MINOR.PATCH[-PRE][+BUILD]``."""
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise VersionError(f"{text!r} is not a version")
        major, minor, patch, pre, build = match.groups()
        parts = tuple(pre.split(".")) if pre else ()
        for part in parts:
            if part.isdigit() and len(part) > 1 and part[0] == "0":
                raise VersionError(f"{part} in {text!r} starts with a zero")
        return cls(int(major), int(minor), int(patch), parts, build or "")

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(self.pre)
        if self.build:
            text += "+" + self.build
        return text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order() == other._order()

    def __lt__(self, other: Version) -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash(self._order())

    def _order(self) -> tuple:
        """A release comes after its pre-releases; numbers come before words, and fewer parts before more."""
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre)
        return self.major, self.minor, self.patch, not self.pre, parts

    @property
    def is_release(self) -> bool:
        """False for pre-releases."""
        return not self.pre

    def bump(self, part: str) -> Version:
        """The next release: ``major``, ``minor`` or ``patch`` counts up, and what is right of it starts at 0.

        The next patch of a pre-release is the release itself.
        """
        if part == "major":
            return Version(self.major + 1)
        if part == "minor":
            return Version(self.major, self.minor + 1)
        if part == "patch":
            return Version(self.major, self.minor, self.patch + (1 if self.is_release else 0))
        raise VersionError(f"no part {part!r} of a version")


def latest(texts: list[str], releases_only: bool = True) -> str | None:
    """The highest version of a list as it was written; pre-releases count only if asked for."""
    versions = [(Version.parse(text), text) for text in texts]
    if releases_only:
        versions = [pair for pair in versions if pair[0].is_release]
    return max(versions, key=lambda pair: pair[0])[1] if versions else None
