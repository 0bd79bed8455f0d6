"""Names as people type them and as files bear them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: object, choices: Iterable[str], cutoff: float = 0.0) -> str:
    """The choice most like ``name``, in whatever case; "" where none is as like it as ``cutoff`` (0: any will do, 1: the same)."""
    written = {choice.lower(): choice for choice in choices}
    return next((written[near] for near in difflib.get_close_matches(str(name).lower(), written, 1, cutoff)), "")


def meant(name: object, choices: Iterable[str], prefix: str = "", cutoff: float = 0.5) -> str:
    """``; did you mean NAME?``, or nothing where no choice is near."""
    near = nearest(name, choices, cutoff)
    return f"; did you mean {prefix}{near}?" if near else ""


def file_name(words: str, also: str = "") -> str:
    """``words`` in letters that every file system takes, and those in ``also``."""
    return "".join(letter if letter.isalnum() or letter in f"-_.{also}" else "_" for letter in words)
