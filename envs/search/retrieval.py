"""Documents, the part of them that a search shows, and BM25 by bm25s."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import bm25s
import numpy as np

_WORD = re.compile(r"[^\W_]+")


class Document(NamedTuple):
    """A document that a search found; gold facts name it by its ``key``."""

    key: str
    title: str
    sentences: tuple[str, ...]


class GoldFact(NamedTuple):
    """A fact that a question needs: a sentence of a document; "" for any part of it."""

    key: str
    sentence: str


class Retriever(Protocol):
    """A collection of documents."""

    def search(self, query: str, count: int) -> list[Document]:
        """Return at most ``count`` documents, the best first.

        Raises:
            EnvError: the collection cannot be searched.
        """


def words(text: str) -> list[str]:
    """Return the runs of letters and digits in lower case, without stop words or stems.

    >>> words("The Orlen-Bridge, 1871")
    ['the', 'orlen', 'bridge', '1871']
    """
    return _WORD.findall(text.lower())


class Bm25:
    """An index of texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._index = bm25s.BM25(backend="numpy")
        self._index.index([words(text) for text in texts], show_progress=False)

    def save(self, folder: Path) -> None:
        self._index.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> Bm25:
        """Return a saved index, whose arrays stay on disk."""
        index = cls.__new__(cls)
        index._index = bm25s.BM25.load(folder, mmap=True)
        return index

    def best(self, query: str, count: int) -> list[int]:
        """Return the best texts that contain a word of the query; equals in their order."""
        known = self._index.get_tokens_ids(words(query))
        if not known:
            return []
        scores = self._index.get_scores_from_ids(known)
        least = np.partition(scores, -count)[-count] if count < len(scores) else 0.0
        found = np.flatnonzero((scores >= least) & (scores > 0))
        return found[np.argsort(-scores[found], kind="stable")][:count].tolist()


def cut(documents: Sequence[Document], limit: int) -> list[Document]:
    """Return what a search shows: whole sentences, in order, of ``limit`` characters together.

    The first sentence of all is shown in any case, cut if it is too long.
    """
    lengths = (len(sentence) + 1 for document in documents for sentence in document.sentences)
    room = max(1, sum(total <= limit + 1 for total in itertools.accumulate(lengths)))
    shown: list[Document] = []
    for document in documents:
        kept, room = document.sentences[:room], max(0, room - len(document.sentences))
        if kept:
            shown.append(document._replace(sentences=kept if shown else (kept[0][:limit], *kept[1:])))
    return shown


def shows(documents: Sequence[Document], fact: GoldFact) -> bool:
    """Return whether documents, as cut, contain a fact."""
    return any(found.key == fact.key and (not fact.sentence or fact.sentence in found.sentences) for found in documents)
