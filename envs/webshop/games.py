"""Instructions: how those of the shop made here are drawn, and words that both sources share."""

import hashlib
import json
import random
from collections.abc import Sequence

from turngrid.envs.environment import Params
from turngrid.envs.webshop.shop import Goal, Shop

MOST_ATTRIBUTES, MOST_OPTIONS = 3, 2
NO_LIMIT = 1_000_000.0
_OPENINGS = ("Find me", "I need", "I am looking for", "I want to buy", "Please find me")
_LIMITS = [10.0 * tens for tens in range(1, 100)]  # dollars


def drawn(shop: Shop, params: Params, seed: int) -> Goal:
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


def place_of(asin: str) -> float:
    """Return a product's place in [0, 1), by a hash of its number in the trade."""
    return int.from_bytes(hashlib.sha256(asin.encode()).digest()[:6], "big") / 2**48
