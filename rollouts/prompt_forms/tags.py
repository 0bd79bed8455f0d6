"""Pairs of tags in an answer."""

from __future__ import annotations

import re


def pair(name: str) -> tuple[str, str]:
    return f"<{name}>", f"</{name}>"


def between(name: str) -> re.Pattern[str]:
    """From the first tag to the nearest second one, in capitals too, since some tokenizers know no others; its group is what
    stands between them."""
    begin, end = map(re.escape, pair(name))
    return re.compile(f"{begin}(.*?){end}", re.IGNORECASE | re.DOTALL)


def tagged(name: str, text: str) -> str:
    begin, end = pair(name)
    return f"{begin}{text}{end}"
