"""A shop on disk: products, instructions and a BM25 index, which all processes share.

A shop is a folder of the cache, written once. Processes map its files into memory; a product is
decoded when it is shown.
"""

import functools
import itertools
import mmap
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import bm25s
import msgspec
import numpy as np

T = TypeVar("T")
TOP = 50  # results of a search, as in WebShop
SHARES = {"validation": 0.1, "demonstrations": 0.2, "pretraining": 0.1, "train": 0.6}  # of products not in test
CODES = {name: code for code, name in enumerate(("test", *SHARES))}
_K1, _B = 0.9, 0.4  # Pyserini's defaults, which WebShop uses
_KEPT_PRODUCTS, _KEPT_SEARCHES = 1024, 64
_DIGITS = 3  # to which scores are rounded: CPUs may differ in the last bits
_WORD = re.compile(r"[^\W_]+")
_STOP = {
    *("a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "i", "in"),
    *("is", "it", "me", "my", "of", "on", "or", "some", "that", "the", "to", "with"),
}


@dataclass(frozen=True)
class Product:
    """A product.

    Attributes:
        query: what kind of product it is, in the words of a search.
        category: names from general to special, divided by ``›``.
        nouns: those of the title, in lower case; they decide whether two products are of one type.
        options: values that a customer may choose, by name.
        price: in dollars; ``price_tag`` is what the shop shows.
    """

    asin: str
    title: str
    query: str
    category: str
    nouns: list[str]
    attributes: list[str]
    options: dict[str, list[str]]
    price: float
    price_tag: str
    rating: str
    description: str
    features: list[str]

    @property
    def indexed(self) -> str:
        """Return the text that a search reads: as in WebShop, one feature and no attributes."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        return " ".join([self.title, self.description, *self.features[:1], options])


@dataclass(frozen=True)
class Goal:
    """An instruction, and what it asks for.

    Attributes:
        product: number of the product that it describes; others may earn the same.
        options: values, in any option of a product.
        price_upper: in dollars.
        same: hash that is equal for equal instructions, whatever the price.
    """

    product: int
    asin: str
    instruction: str
    attributes: list[str]
    options: list[str]
    price_upper: float
    same: str


class Lines(Generic[T]):
    """JSON lines of a file, decoded one by one as ``cls``."""

    def __init__(self, folder: Path, name: str, cls: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(cls)
        self._ends = np.load(folder / f"{name}.npy", mmap_mode="r")
        with (folder / f"{name}.jsonl").open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> T:
        start = self._ends[number - 1] if number else 0
        return self._decoder.decode(self._bytes[start : self._ends[number]])


def write_lines(folder: Path, name: str, items: Iterable[Any]) -> None:
    """Write items as JSON lines, and where each ends."""
    ends, end = [], 0
    with (folder / f"{name}.jsonl").open("wb") as file:
        for item in items:
            end += file.write(msgspec.json.encode(item) + b"\n")
            ends.append(end)
    np.save(folder / f"{name}.npy", np.array(ends, np.int64))


class Shop:
    """The products of a folder, their search, and which of them or of the goals a split has."""

    def __init__(self, folder: Path) -> None:
        self._products = Lines(folder, "products", Product)
        self._splits = np.load(folder / "splits.npy", mmap_mode="r")
        self._index = bm25s.BM25.load(folder / "index", mmap=True)
        self.goals = Lines(folder, "goals", Goal) if (folder / "goals.npy").exists() else None
        self._sizes = np.load(folder / "sizes.npy", mmap_mode="r") if self.goals else np.empty((0, 2))
        self.product = functools.lru_cache(_KEPT_PRODUCTS)(self._products.__getitem__)
        self.search = functools.lru_cache(_KEPT_SEARCHES)(self._search)

    def of_split(self, split: str) -> np.ndarray:
        """Return the numbers of a split's goals, or of its products if the shop has no goals."""
        return np.flatnonzero(self._splits == CODES[split])

    def goals_of(self, split: str, sizes: Sequence[int | None]) -> list[int]:
        """Return the numbers of a split's goals with so many attributes and options; None: any."""
        numbers = self.of_split(split)
        for column, size in enumerate(sizes):
            if size is not None:
                numbers = numbers[self._sizes[numbers, column] == size]
        return numbers.tolist()

    def _search(self, query: str) -> tuple[int, ...]:
        """Return the numbers of the best products, best first; of equal ones the first."""
        known = self._index.get_tokens_ids(words(query))
        if not known:
            return ()
        scores = self._index.get_scores_from_ids(known).round(_DIGITS)
        matching = np.flatnonzero(scores)
        if len(matching) > TOP:
            matching = matching[scores[matching] >= np.partition(scores[matching], -TOP)[-TOP]]
        best = matching[np.argsort(-scores[matching], kind="stable")][:TOP]
        return tuple(best.tolist())


def code_of(rank: float) -> int:
    """Return the code of the split, other than test, that has products of ``rank`` in [0, 1)."""
    ends = itertools.accumulate(SHARES.values())
    return CODES[next(name for name, end in zip(SHARES, ends, strict=True) if rank < end)]


def words(text: str) -> list[str]:
    """Return the words of a text that a search knows: in lower case, without the commonest."""
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP]


def write_index(folder: Path) -> None:
    """Write the index of the products that ``write_lines`` wrote."""
    products, vocabulary = Lines(folder, "products", Product), dict[str, int]()
    texts = (products[number].indexed for number in range(len(products)))
    ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words(text)] for text in texts]
    index = bm25s.BM25(k1=_K1, b=_B, method="lucene", backend="numpy")
    index.index((ids, vocabulary), show_progress=False)
    index.save(folder / "index", show_progress=False)


@functools.lru_cache(2)
def opened(folder: Path) -> Shop:
    return Shop(folder)
