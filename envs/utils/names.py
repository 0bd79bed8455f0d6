"""Suggestions for mistyped names, and names of files."""

import difflib
from collections.abc import Iterable


def nearest(name: object, choices: Iterable[str], cutoff: float = 0.0) -> str:
    """Return the closest choice, ignoring case, or "" if none reaches ``cutoff`` (1: equal)."""
    written = {choice.lower(): choice for choice in choices}
    return next((written[near] for near in difflib.get_close_matches(str(name).lower(), written, 1, cutoff)), "")


def meant(name: object, choices: Iterable[str], prefix: str = "", cutoff: float = 0.5) -> str:
    """Return ``; use NAME``, or "" if no choice is close."""
    near = nearest(name, choices, cutoff)
    return f"; use {prefix}{near}" if near else ""


def file_name(words: str, also: str = "") -> str:
    """Return a file name: letters, digits, ``-_.`` and ``also`` stay, others become ``_``."""
    return "".join(letter if letter.isalnum() or letter in f"-_.{also}" else "_" for letter in words)
