"""Where randomness comes from: a request is seeded by what it is for, never by when it was served."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: object) -> int:
    """A 63-bit seed from the parts' text: the same on every machine and in every process.

    >>> derive_seed(0, "train", 3) == derive_seed(0, "train", 3)
    True
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def request_seed(run_seed: int, step: int, prompt: str, sample: int, turn: int) -> int:
    """The seed of one turn's sampling request; ``prompt`` names the group, so a game may come twice in a step."""
    return derive_seed("request", run_seed, step, prompt, sample, turn)
