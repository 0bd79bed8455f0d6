"""Documents, the part of them that a search shows, and what it searches: a BM25 index, a
question's own paragraphs, a file of passages, or a retrieval server.
"""

import functools
import hashlib
import itertools
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import bm25s
import httpx
import numpy as np

from turngrid.envs.games.cache import kept_folder
from turngrid.envs.search.files import sentences
from turngrid.envs.types import EnvError

_WORD = re.compile(r"[^\W_]+")
WAITS_S = (1.0, 2.0)  # before the second and third try


class Document(NamedTuple):
    """A document that a search found; gold facts name it by its ``key``."""

    key: str
    title: str
    sentences: tuple[str, ...]


class GoldFact(NamedTuple):
    """A fact that a question needs: a sentence of a document; "" for any part of it."""

    key: str
    sentence: str


# Returns the best documents of a collection for a query, at most so many; raises ``EnvError``.
Finder = Callable[[str, int], list[Document]]


def words(text: str) -> list[str]:
    """Return the runs of letters and digits in lower case; stop words stay, nothing is stemmed.

    >>> words("The Orlen-Bridge, 1871")
    ['the', 'orlen', 'bridge', '1871']
    """
    return _WORD.findall(text.lower())


class Bm25:
    def __init__(self, texts: Iterable[str]) -> None:
        self._index = bm25s.BM25(backend="numpy")
        self._index.index([words(text) for text in texts], show_progress=False)

    def save(self, folder: Path) -> None:
        self._index.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> Self:
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
        best = np.flatnonzero((scores >= least) & (scores > 0))
        return best[np.argsort(-scores[best], kind="stable")][:count].tolist()


def cut(documents: Sequence[Document], limit: int) -> list[Document]:
    """Return what a search shows: whole sentences, in order, up to ``limit`` characters in all.

    The first sentence is always shown, cut to ``limit`` if it is longer.
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
    same = (document for document in documents if document.key == fact.key)
    return any(not fact.sentence or fact.sentence in document.sentences for document in same)


def search_in(paragraphs: Sequence[tuple[str, Sequence[str]]]) -> Finder:
    """Return the search of one question's paragraphs: titles and sentences."""
    documents = [Document(title, title, tuple(texts)) for title, texts in paragraphs]
    index = Bm25(f"{title} {' '.join(texts)}" for title, texts in paragraphs)
    return lambda query, count: [documents[number] for number in index.best(query, count)]


class Corpus:
    """A file of passages, ``{"id": ..., "contents": ...}`` a line, whose index is kept on disk."""

    def __init__(self, path: Path) -> None:
        """Load the index, which the first process that needs it makes."""
        folder = indexed(path)
        self._index = Bm25.load(folder)
        self._offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        self._file = path.open("rb")

    def search(self, query: str, count: int) -> list[Document]:
        return [self._document(number) for number in self._index.best(query, count)]

    def _document(self, number: int) -> Document:
        self._file.seek(int(self._offsets[number]))
        return document(json.loads(self._file.readline())["contents"])


corpus_of = functools.cache(Corpus)  # one a process


def indexed(path: Path) -> Path:
    """Return the folder of a file's index; make it if it is not there."""
    state = path.stat()
    name = hashlib.sha256(f"{path.resolve()} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:16]

    def write(folder: Path) -> None:
        texts, offsets = _read(path)
        Bm25(texts).save(folder)
        np.save(folder / "offsets.npy", np.array(offsets))

    return kept_folder("search", name, write)


def _read(path: Path) -> tuple[list[str], list[int]]:
    """Return the passages and where their lines begin."""
    texts, offsets, offset = [], [], 0
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    texts.append(str(json.loads(line)["contents"]))
                except (ValueError, KeyError, TypeError) as error:
                    raise EnvError(f'env.corpus={path}: line {number} is no passage {{"contents": ...}}') from error
                offsets.append(offset)
            offset += len(line)
    if not texts:
        raise EnvError(f"env.corpus={path}: it has no passage")
    return texts, offsets


def document(contents: str) -> Document:
    """Return a passage whose first line is its title, mostly in quotes."""
    title, _, text = contents.partition("\n")
    title = title.strip().strip('"')
    return Document(title, title, tuple(sentences(text)) or (title,))


class Server:
    """Search-R1's retrieval server; its answers need not repeat."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._client = httpx.Client(timeout=timeout_s)

    def search(self, query: str, count: int) -> list[Document]:
        for wait in WAITS_S:
            try:
                return self._ask(query, count)
            except EnvError:
                time.sleep(wait)
        return self._ask(query, count)

    def _ask(self, query: str, count: int) -> list[Document]:
        # without scores the server fails: it unpacks one value into two
        body = {"queries": [query], "topk": count, "return_scores": True}
        try:
            reply = self._client.post(self._url, json=body)
            if not reply.is_success:
                raise EnvError(f"the server at env.url={self._url} answered {reply.status_code}")
            return [document(item["document"]["contents"]) for item in reply.json()["result"][0][:count]]
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise EnvError(f"the server at env.url={self._url} did not answer: {error!r}") from error
        except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError) as error:
            raise EnvError(f"the server at env.url={self._url} sent no passages: {error!r:.200}") from error


server_of = functools.cache(Server)  # one a process, which keeps its connection
