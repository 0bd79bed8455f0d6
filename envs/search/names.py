"""Invented names. Each contains a root, and a hash of a root decides in which splits it may occur.

So no name of a test world occurs in a training world.
"""

import hashlib
import random
from collections.abc import Iterator

# 16 classes of roots, by the worlds in which they occur
CLASSES = {"train": range(10), "validation": range(10, 12), "test": range(12, 16)}
_BEGINNINGS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kr", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "au", "ei", "ia")
_ENDS = ("d", "k", "l", "lm", "ln", "m", "n", "nd", "r", "rk", "rn", "s", "sk", "st", "t", "th", "v", "x")


def root_class(root: str) -> int:
    """Return a root's class, 0 to 15."""
    return hashlib.blake2b(root.encode(), digest_size=1).digest()[0] % 16


def roots(draw: random.Random, names: str) -> Iterator[str]:
    """Yield distinct roots of a world of ``names``, a key of ``CLASSES``.

    There are 580,000 spellings, of which each kind of world may use an eighth or more.
    """
    seen = set()
    while True:
        sounds = _BEGINNINGS, _VOWELS, _BEGINNINGS, _VOWELS, _ENDS
        root = "".join(map(draw.choice, sounds)).capitalize()
        if root not in seen and root_class(root) in CLASSES[names]:
            seen.add(root)
            yield root
