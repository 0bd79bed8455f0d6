"""Teach a model to copy what it read: names, recipes and product codes of a text environment.

Copying is most of what these environments ask for, and their texts alone do not teach it to a small
model in minutes: it learns the frequent words instead.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from turngrid.assets.make.train import CHOSEN, SEEN, Row

ALPHABETS = (8, 16, 32, 64)  # different tokens in a row; with thousands a small model does not begin to learn
SHORTEST, LONGEST, TIMES = 12, 48, 3
SPECIAL = 3  # the first token ids, which texts do not have


def copied(vocabulary: int, rng: random.Random) -> Row:
    """Return a sequence of random tokens three times; the second and third time have a loss."""
    alphabet = [rng.randrange(SPECIAL, vocabulary) for _ in range(rng.choice(ALPHABETS))]
    sequence = rng.choices(alphabet, k=rng.randint(SHORTEST, LONGEST))
    return Row(sequence * TIMES, [SEEN] * len(sequence) + [CHOSEN] * len(sequence) * (TIMES - 1))


def common_tokens(rows: Sequence[Row], number: int) -> set[int]:
    """Return the most frequent tokens, by the number of rows that have them: grammar, not names."""
    counts = Counter(token for row in rows for token in set(row.ids))
    return {token for token, _ in counts.most_common(number)}


def renamed(row: Row, common: set[int], vocabulary: int, share: float, rng: random.Random) -> Row:
    """Replace some tokens that an action copies, each by one random token wherever it stands.

    What the action says can then only be read in the observations before it.
    """
    seen: set[int] = set()
    copies: set[int] = set()
    for token, kind in zip(row.ids, row.kinds, strict=True):
        if kind == CHOSEN and token in seen and token not in common:
            copies.add(token)
        seen.add(token)
    names = {token: rng.randrange(SPECIAL, vocabulary) for token in sorted(copies) if rng.random() < share}
    return Row([names.get(token, token) for token in row.ids], row.kinds)
