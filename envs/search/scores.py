"""Exact match and F1 of an answer, as SQuAD, HotpotQA and Search-R1 compute them."""

import re
import string
from collections import Counter
from collections.abc import Iterable

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_CLOSED = {"yes", "no", "noanswer"}


def normalised(text: str) -> str:
    """Return lower-case words without ASCII punctuation and articles.

    >>> normalised("The Orlen-Bridge.")
    'orlenbridge'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, golds: Iterable[str]) -> bool:
    """Return whether an answer equals a gold; an answer without words equals none."""
    words = normalised(answer)
    return bool(words) and words in map(normalised, golds)


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best F1 over the golds, in [0, 1]: 2c/(|a| + |g|), c the words in common."""
    return max((_f1(normalised(answer), normalised(gold)) for gold in golds), default=0.0)


def _f1(answer: str, gold: str) -> float:
    if answer != gold and _CLOSED & {answer, gold}:
        return 0.0
    words, wanted = Counter(answer.split()), Counter(gold.split())
    common = (words & wanted).total()
    return 2 * common / (words.total() + wanted.total()) if common else 0.0
