"""The official data: files of WebShop's ``setup.sh``, turned into a shop of the cache once.

All read from the files follows WebShop's ``engine.py`` and ``goal.py``; its draws without a seed
(prices in a range, price limits) are made from hashes here.
"""

import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as combinations
from pathlib import Path
from typing import Any

import numpy as np

from turngrid.envs.data_set import rank_of
from turngrid.envs.environment import Params
from turngrid.envs.games.cache import kept_folder
from turngrid.envs.types import EnvError, TaskError
from turngrid.envs.webshop import products, shop
from turngrid.envs.webshop.shop import Goal, Product, words

VERSION = 1
_TEST_GOALS = 500  # the first of WebShop's shuffled list are its test set
_HUMAN = "items_human_ins.json"
_SHUFFLE = 233  # WebShop's seed for the order of its goals
_ORIGIN = "./setup.sh -d small (or -d all) of github.com/princeton-nlp/WebShop downloads it"
_CHUNK = 1 << 20
_NO_PRICE = 100.0
_GAP = re.compile(r"[ \n\r\t,]*")  # between two items
Fields = dict[str, Any]


@dataclass(frozen=True)
class Files:
    """Products, their attributes, and instructions by people (None: the synthetic ones)."""

    products: Path
    attributes: Path
    human: Path | None

    @property
    def key(self) -> str:
        """Hash of names, sizes and times, which changes with the files."""
        stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in self.all]
        return hashlib.sha256(json.dumps([VERSION, shop.CODES, stats]).encode()).hexdigest()[:16]

    @property
    def all(self) -> list[Path]:
        return [self.products, self.attributes, *([self.human] if self.human else [])]


def files(data_dir: str, goals: str) -> Files:
    """Return the files in ``data_dir``: of all products, or else of the first thousand.

    Raises:
        TaskError: a file is missing; the message names it and where it comes from.
    """
    folder = Path(data_dir).expanduser().absolute()
    suffix = "" if (folder / "items_shuffle.json").is_file() else "_1000"
    human = folder / _HUMAN if goals == "human" else None
    paths = Files(folder / f"items_shuffle{suffix}.json", folder / f"items_ins_v2{suffix}.json", human)
    missing = [file.name for file in paths.all if not file.is_file()]
    if missing:
        other = "; env.goals=synthetic needs none" if missing == [_HUMAN] else ""
        raise TaskError(f"env.data_dir={data_dir}: there is no {' and no '.join(missing)}; {_ORIGIN}{other}")
    return paths


def folder_of(params: Params, data_dir: str) -> Path:
    """Return the folder of a game's shop, made here or official, which the first call writes.

    Raises:
        TaskError: the files are not WebShop's, or the folder cannot be written.
    """
    if "products" in params:
        return products.own_shop(params["products"])
    paths = files(data_dir, params["goals"])
    try:
        return kept_folder("webshop", f"official-{paths.key}", lambda folder: _write(folder, paths))
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"a field is missing or of another kind ({error!r})"
        raise TaskError(f"env.data_dir={data_dir}: {problem}; {_ORIGIN}") from error


def shop_of(params: Params, data_dir: str) -> shop.Shop:
    """Return the shop of a game's parameters.

    Raises:
        EnvError: the official data is not that of the game.
    """
    folder = folder_of(params, data_dir)
    if "data" in params and digest(folder) != params["data"]:
        raise EnvError("the files in env.data_dir are not those that the games were made of")
    return shop.opened(folder)


def digest(folder: Path) -> str:
    """Return a hash of the products and goals, equal on all machines with the same files."""
    return (folder / "digest").read_text()


def _write(folder: Path, paths: Files) -> None:
    attributes = _table(paths.attributes)
    human = _table(paths.human) if paths.human else None
    numbers: dict[str, int] = {}
    goals: list[Goal] = []

    def read() -> Iterator[Product]:
        for item in items(paths.products):
            product = _product(item, attributes.get(item["asin"], {}), numbers)
            if product is not None:
                numbers[product.asin] = len(numbers)
                about = attributes.get(product.asin, {}) if human is None else human.get(product.asin, [])
                goals.extend(_goals(numbers[product.asin], product, about))
                yield product

    shop.write_lines(folder, "products", read())
    if not goals:
        raise TaskError(f"env.data_dir={paths.products.parent}: no instruction in {paths.all[-1].name}; {_ORIGIN}")
    random.Random(_SHUFFLE).shuffle(goals)
    shop.write_lines(folder, "goals", goals)
    np.save(folder / "splits.npy", np.array(_splits(goals), np.int8))
    np.save(folder / "sizes.npy", np.array([(len(goal.attributes), len(goal.options)) for goal in goals], np.int16))
    shop.write_index(folder)
    (folder / "digest").write_text(_digest(folder))


def items(file: Path) -> Iterator[Fields]:
    """Yield the objects of a JSON array, without reading the file (5 GB) at once.

    Raises:
        TaskError: the file is no array of objects.
    """
    decoder, text, count = json.JSONDecoder(), "", 0
    with file.open(encoding="utf-8") as source:
        while chunk := source.read(_CHUNK):
            text = (text + chunk).lstrip()
            start = 1 if count == 0 and text[:1] == "[" else 0
            while True:
                start = _GAP.match(text, start).end()  # type: ignore[union-attr]
                try:
                    item, start = decoder.raw_decode(text, start)
                except ValueError:
                    break
                if not isinstance(item, dict) or "asin" not in item:
                    raise TaskError(f"env.data_dir: {file.name} has an entry that is no product; {_ORIGIN}")
                count += 1
                yield item
            text = text[start:]
    if text.strip(" \n\r\t,") != "]" or not count:
        raise TaskError(f"env.data_dir: {file.name} is no whole JSON list of products; {_ORIGIN}")


def _table(file: Path) -> Mapping[str, Any]:
    try:
        table = json.loads(file.read_bytes())
    except ValueError as error:
        raise TaskError(f"env.data_dir: {file.name} is not JSON ({error}); {_ORIGIN}") from error
    if not isinstance(table, dict):
        raise TaskError(f"env.data_dir: {file.name} is no table by asin; {_ORIGIN}")
    return table


def _product(item: Fields, about: Fields, known: Mapping[str, int]) -> Product | None:
    """Return a product; None if WebShop skips it too."""
    asin = str(item["asin"])
    if asin == "nan" or len(asin) > 10 or asin in known:
        return None
    prices = [float(part) for part in re.findall(r"\d[\d,]*\.?\d*", (item.get("pricing") or "").replace(",", ""))][:2]
    name, features = str(item["name"]), item.get("small_description") or []
    return Product(
        asin=asin,
        title=name,
        query=str(item["query"]).lower().strip(),
        category=str(item["product_category"]),
        nouns=list(dict.fromkeys(word for word in words(name) if word.isalpha() and len(word) > 1)),
        attributes=[str(attribute) for attribute in about.get("attributes", ["DUMMY_ATTR"])],
        options=_options(item.get("customization_options") or {}),
        price=random.Random(asin).uniform(*prices) if len(prices) == 2 else (prices or [_NO_PRICE])[0],
        price_tag=" to ".join(f"${price}" for price in prices or [_NO_PRICE]),
        rating="N.A.",
        description=str(item.get("full_description") or ""),
        features=[str(text) for text in features] if isinstance(features, list) else [str(features)],
    )


def _options(offered: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        name.lower(): [str(choice["value"]).strip().replace("/", " | ").lower() for choice in choices]
        for name, choices in offered.items()
        if choices is not None
    }


def _goals(number: int, product: Product, about: Any) -> Iterator[Goal]:
    """Yield a product's instructions: by people (a list), or the synthetic ones (a table)."""
    if isinstance(about, list):
        for given in about:
            if attributes := given["instruction_attributes"]:
                options = given["instruction_options"]
                values = [*options.values()] if isinstance(options, dict) else [*options]
                yield _goal(number, product, given["instruction"].strip("."), attributes, values)
    elif (text := about.get("instruction")) is not None and (attributes := about.get("instruction_attributes")):
        names = sorted(product.options)
        for chosen in combinations(*(product.options[name] for name in names)):
            asked = text + products.with_options(dict(zip(names, chosen, strict=True)))
            yield _goal(number, product, asked, attributes, [*chosen])


def _goal(number: int, product: Product, asked: str, attributes: list[str], options: list[str]) -> Goal:
    limit = products.price_limit(product.price, random.Random(f"{product.asin} {asked}"))
    same = products.same_as(product.asin, asked.lower())
    return Goal(number, product.asin, asked + products.price_words(limit), attributes, options, limit, same)


def _splits(goals: list[Goal]) -> list[int]:
    """Return the code of each goal's split; -1: not in test, but its product is."""
    count = min(_TEST_GOALS, len(goals) // 4)
    tested = {goal.asin for goal in goals[:count]}
    rest = (-1 if goal.asin in tested else shop.code_of(rank_of(goal.asin)) for goal in goals[count:])
    return [shop.CODES["test"]] * count + [*rest]


def _digest(folder: Path) -> str:
    hashed = hashlib.sha256()
    for name in ("products.jsonl", "goals.jsonl"):
        with (folder / name).open("rb") as file:
            hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()
