"""Seeds: a request is seeded by its identity, never by the time it was served."""

import hashlib


def derive_seed(*parts: object) -> int:
    """Return a 63-bit seed from the parts' text, equal on every machine and in every process.

    >>> derive_seed(0, "train", 3) == derive_seed(0, "train", 3)
    True
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def request_seed(run_seed: int, step: int, prompt: str, sample: int, turn: int) -> int:
    """Return the seed of one turn's request; ``prompt`` names the group of samples."""
    return derive_seed("request", run_seed, step, prompt, sample, turn)
