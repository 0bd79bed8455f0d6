"""Rows of random tokens in which pieces come back: they teach a model to copy what it read.

Copying names, recipes and product codes is most of what a text environment asks for.
"""

from __future__ import annotations

import random

from turngrid.assets.make.train import CHOSEN, SEEN, Row

PIECES, DRAWS, LONGEST = 8, 24, 10
SPECIAL = 3  # the first token ids, which texts do not have


def copied(vocabulary: int, rng: random.Random) -> Row:
    """Return about 140 tokens; a loss is on those that continue a piece which came before."""
    lengths = [rng.randint(2, LONGEST) for _ in range(PIECES)]
    pieces = [[rng.randrange(SPECIAL, vocabulary) for _ in range(length)] for length in lengths]
    row, before = Row([], []), set()
    for number in rng.choices(range(PIECES), k=DRAWS):
        kind = CHOSEN if number in before else SEEN
        row.ids.extend(pieces[number])
        row.kinds.extend([SEEN, *[kind] * (len(pieces[number]) - 1)])
        before.add(number)
    return row
