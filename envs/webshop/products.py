"""A shop made here: products drawn from words, each by its number alone, and instructions."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from turngrid.envs.environment import Params
from turngrid.envs.games.cache import kept_folder
from turngrid.envs.webshop import shop
from turngrid.envs.webshop.shop import Goal, Product, Shop

VERSION = 1
_TEST_SHARE = 0.25
_SIZE = "size"  # the option whose values must be equal
_COLOURS = ("black", "white", "navy", "red", "green", "grey", "pink", "brown", "beige", "purple", "orange", "teal")
_BRANDS = (
    *("Norvale", "Brightfen", "Kestrelle", "Oakmere", "Lumoria", "Tavisham", "Wrenfold", "Solgatto", "Pinehollow"),
    *("Marrowby", "Quillaine", "Fernadel", "Dunmarsh", "Elverstone", "Harrowen", "Ivelyne", "Jorvanne", "Cobbleton"),
)
MOST_ATTRIBUTES, MOST_OPTIONS = 3, 2
NO_LIMIT = 1_000_000.0
_OPENINGS = ("Find me", "I need", "I am looking for", "I want to buy", "Please find me")
_LIMITS = [10.0 * tens for tens in range(1, 100)]  # dollars


@dataclass(frozen=True)
class Department:
    """Kinds of products, and what they have in common.

    Attributes:
        look: name of the option beside the size.
        prices: lowest and highest, in dollars.
    """

    name: str
    types: tuple[str, ...]
    attributes: tuple[str, ...]
    look: str
    looks: tuple[str, ...]
    sizes: tuple[str, ...]
    prices: tuple[int, int]


# No two types have a word in common, and in a department no two attributes are nearly equal.
DEPARTMENTS = (
    Department(
        "Clothing",
        (
            *("hiking boots", "running shoes", "rain jacket", "denim jeans", "wool sweater", "swim trunks"),
            *("polo shirt", "evening dress", "ankle socks", "winter gloves", "leather belt", "bucket hat"),
        ),
        (
            *("machine washable", "water resistant", "quick drying", "stretch fabric", "moisture wicking", "slim fit"),
            *("wrinkle free", "cotton lining", "hand stitched", "sun protective", "double layered", "light weight"),
            *("odor control", "gift boxed"),
        ),
        "color",
        _COLOURS,
        ("x-small", "small", "medium", "large", "x-large", "xx-large"),
        (12, 240),
    ),
    Department(
        "Beauty",
        (
            *("face cream", "lip balm", "hair conditioner", "shower gel", "nail polish", "eye shadow"),
            *("body lotion", "makeup brush", "perfume spray", "tooth powder", "beard oil", "clay mask"),
        ),
        (
            *("cruelty free", "paraben free", "fragrance allergy tested", "long lasting", "dermatologist approved"),
            *("plant based", "sensitive skin", "easy rinse", "non greasy", "fast absorbing", "tea tree"),
            *("refillable jar", "vitamin enriched", "alcohol free"),
        ),
        "scent",
        (
            *("lavender", "vanilla", "citrus", "coconut", "sandalwood", "jasmine"),
            *("peach", "cedar", "honey", "bergamot", "lilac", "almond"),
        ),
        ("1 ounce", "2 ounce", "4 ounce", "8 ounce", "12 ounce", "16 ounce"),
        (6, 180),
    ),
    Department(
        "Electronics",
        (
            *("wireless earbuds", "phone case", "desk lamp", "power bank", "game controller", "camera tripod"),
            *("charging cable", "bluetooth speaker", "computer keyboard", "tablet stand", "smart watch", "memory card"),
        ),
        (
            *("noise cancelling", "high definition", "plug and play", "hands free", "shock absorbing", "dual band"),
            *("low energy", "voice activated", "touch sensitive", "heavy duty", "ultra thin", "carrying pouch"),
            *("dust sealed", "braided cord"),
        ),
        "color",
        _COLOURS,
        ("mini", "compact", "standard", "plus", "pro", "max"),
        (15, 400),
    ),
    Department(
        "Home",
        (
            *("coffee table", "throw pillow", "floor rug", "window curtain", "book shelf", "bath towel"),
            *("bed frame", "bar stool", "photo album", "kitchen knife", "storage basket", "candle holder"),
        ),
        (
            *("easy assembly", "solid wood", "space saving", "stain resistant", "non slip", "hand woven"),
            *("eco friendly", "fade proof", "foldable design", "mid century", "double sided", "child safe"),
            *("scratch guarded", "recycled material"),
        ),
        "color",
        _COLOURS,
        ("12 inch", "18 inch", "24 inch", "36 inch", "48 inch", "60 inch"),
        (20, 500),
    ),
    Department(
        "Grocery",
        (
            *("trail mix", "herbal tea", "dark chocolate", "rice crackers", "energy bites", "pasta sauce"),
            *("maple syrup", "oat cereal", "espresso beans", "dried mango", "popcorn kernels", "peanut spread"),
        ),
        (
            *("gluten free", "no added sugar", "low sodium", "high protein", "non gmo", "certified organic"),
            *("keto friendly", "dairy alternative", "resealable bag", "small batch", "stone ground", "kosher made"),
            *("individually wrapped", "family recipe"),
        ),
        "flavor name",
        (
            *("original", "cinnamon", "ginger", "hazelnut", "berry", "lemon"),
            *("caramel", "chili", "garlic", "basil", "apple", "pecan"),
        ),
        ("pack of 1", "pack of 2", "pack of 4", "pack of 6", "pack of 8", "pack of 12"),
        (4, 120),
    ),
)


def product(number: int) -> Product:
    """Make a product; its number is its seed."""
    draw = random.Random(f"webshop product {VERSION} {number}")
    department = draw.choice(DEPARTMENTS)
    query, brand = draw.choice(department.types), draw.choice(_BRANDS)
    first, second, third, listed, *rest = attributes = draw.sample(department.attributes, draw.randint(4, 6))
    looks = draw.sample(department.looks, draw.randint(4, 6))
    sizes = sorted(draw.sample(range(len(department.sizes)), draw.randint(4, 5)))  # in their order
    options = {department.look: looks, _SIZE: [department.sizes[number] for number in sizes]}
    price = draw.randint(100 * department.prices[0], 100 * department.prices[1]) / 100
    return Product(
        asin="B" + hashlib.sha256(f"webshop {number}".encode()).hexdigest()[:9].upper(),
        title=f"{brand} {query.title()}, {first.title()}, {second.title()}",
        query=query,
        category=f"{department.name} › {query.title()}",
        nouns=query.split(),
        attributes=attributes,
        options=options,
        price=price,
        price_tag=f"${price:.2f}",
        rating=f"{draw.randint(25, 50) / 10}",
        description=f"{query.capitalize()} by {brand} for every day, {third}.",
        features=[f"{attribute.capitalize()}." for attribute in (listed, *rest)],
    )


def own_shop(count: int) -> Path:
    """Return the folder of the shop with the products 0 to ``count`` - 1."""
    return kept_folder("webshop", f"made-{VERSION}-{count}", lambda folder: _write(folder, count))


def _write(folder: Path, count: int) -> None:
    shop.write_lines(folder, "products", map(product, range(count)))
    shop.write_index(folder)
    np.save(folder / "splits.npy", np.fromiter(_splits(count), np.int8))


def _splits(count: int) -> Iterator[int]:
    draw = random.Random(f"webshop splits {VERSION}")
    for _ in range(count):
        yield shop.CODES["test"] if draw.random() < _TEST_SHARE else shop.code_of(draw.random())


def draw_goal(shop: Shop, params: Params, seed: int) -> Goal:
    """Draw the instruction of a seed, for a product of the split."""
    draw = random.Random(f"webshop {json.dumps(dict(params), sort_keys=True)} {seed}")
    number = int(draw.choice(shop.of_split(params["split"])))
    product = shop.product(number)
    attributes = draw.sample(product.attributes, _count(params["attributes"], 1, MOST_ATTRIBUTES, draw))
    names = sorted(draw.sample([*product.options], _count(params["options"], 0, MOST_OPTIONS, draw)))
    options = {name: draw.choice(product.options[name]) for name in names}
    limit = price_limit(product.price, draw)
    asked = f"{draw.choice(_OPENINGS)} {', '.join(attributes)} {product.query}{with_options(options)}"
    same = same_as(product.query, sorted(attributes), options)
    return Goal(number, product.asin, asked + price_words(limit), attributes, [*options.values()], limit, same)


def _count(asked: int | None, least: int, most: int, draw: random.Random) -> int:
    return draw.randint(least, most) if asked is None else asked


def price_limit(price: float, draw: random.Random) -> float:
    """Return the larger of two drawn from the next four multiples of ten dollars, as WebShop."""
    above = [limit for limit in _LIMITS if limit > price][:4]
    return max(draw.sample(above, 2)) if len(above) > 1 else NO_LIMIT


def price_words(limit: float) -> str:
    return f", and price lower than {limit:.2f} dollars" if limit < NO_LIMIT else ""


def with_options(options: dict[str, str]) -> str:
    named = [f"{name}: {value}" for name, value in options.items()]
    return f" with {', and '.join(named)}" if named else ""


def same_as(*facts: str | Sequence[str] | dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
