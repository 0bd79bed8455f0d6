"""WebShop's score of a purchase (Yao et al. 2022, arXiv 2207.01206, section 3 and appendix).

    score = type * (attributes met + options met + price met) / (attributes + options + 1)

An attribute of the goal is met if one of the product's is nearly equal, or if the product's text
has it; an option if a chosen value is nearly equal, and a size only if it is equal. The type
compares nouns of the two titles, searches and categories. ``docs/webshop.md`` says what differs
from the released code.
"""

import difflib
import functools
import re
from collections.abc import Mapping

from turngrid.envs.webshop.shop import Goal, Product

_NEARLY = 85  # percent
_COLOURS = {
    *("beige", "black", "blue", "brown", "burgundy", "charcoal", "coral", "cream", "gold"),
    *("golden", "gray", "green", "grey", "ivory", "khaki", "lavender", "maroon", "mint"),
    *("navy", "olive", "orange", "pink", "purple", "red", "rose", "silver", "tan"),
    *("teal", "turquoise", "violet", "white", "wine", "yellow"),
}


def score(bought: Product, options: Mapping[str, str], target: Product, goal: Goal) -> dict[str, float]:
    """Return the score, between 0 and 1, and its parts.

    Args:
        options: chosen values by the names of the product's options.
        target: the product that the goal describes.
    """
    of_type = type_factor(bought, target)
    attributes = sum(has_attribute(bought, wanted) for wanted in goal.attributes)
    chosen = sum(any(same_option(*option, wanted) for option in options.items()) for wanted in goal.options)
    price = bought.price <= goal.price_upper
    total = len(goal.attributes) + len(goal.options) + 1
    parts = {
        "r_type": of_type,
        "r_att": attributes / max(1, len(goal.attributes)),
        "r_option": chosen / len(goal.options) if goal.options else 1.0,
        "r_price": float(price),
    }
    return {"score": of_type * (attributes + chosen + price) / total, **parts}


def type_factor(bought: Product, target: Product) -> float:
    """Return 1, 0.5, 0.1 or 0 by the share of the target's nouns that the bought product has."""
    wanted, had = set(target.nouns), set(bought.nouns)
    share = len(wanted & had) / len(wanted) if wanted else 0.2
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    common = _categories(bought) & _categories(target)
    return 1.0 if share > 0.2 or bought.query == target.query or len(common) >= 2 else 0.5


def _categories(product: Product) -> set[str]:
    return {name.strip() for name in product.category.split("›")}


def has_attribute(product: Product, wanted: str) -> bool:
    if any(likeness(own, wanted) > _NEARLY for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.features), product.description)
    return any(wanted in text.lower() for text in texts)


def same_option(name: str, value: str, wanted: str) -> bool:
    """Return whether a value is what the goal asks for; shades of a colour are equal."""
    value, wanted = _plain_colour(value), _plain_colour(wanted)
    return value == wanted if name.lower() == "size" else likeness(wanted, value) > _NEARLY


def _plain_colour(value: str) -> str:
    value = value.lower()
    return next((word for word in re.findall("[a-z]+", value) if word in _COLOURS), value)


@functools.lru_cache(4096)
def likeness(one: str, other: str) -> int:
    """Return how alike the sets of words of two texts are, 0 to 100.

    This is ``token_set_ratio`` of thefuzz 0.19, but Latin-1 letters stay and ``_`` splits words.

    >>> likeness("tea tree oil", "oil of tea tree"), likeness("water resistant", "stain resistant")
    (100, 75)
    """
    words, others = _words(one), _words(other)
    if not words or not others:
        return 0
    both = " ".join(sorted(words & others))
    with_own, with_others = (f"{both} {' '.join(sorted(rest))}".strip() for rest in (words - others, others - words))
    pairs = ((both, with_own), (both, with_others), (with_own, with_others))
    return max(round(100 * difflib.SequenceMatcher(None, *pair).ratio()) for pair in pairs if all(pair))


def _words(text: str) -> set[str]:
    return set(re.sub(r"[\W_]", " ", text.lower()).split())
