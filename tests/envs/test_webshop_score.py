"""WebShop's score of a purchase, worked by hand."""

from dataclasses import replace

import pytest

from turngrid.envs.webshop.reward import has_attribute, likeness, same_option, score, type_factor
from turngrid.envs.webshop.shop import Goal, Product

JACKET = Product(
    asin="B1",
    title="Alpha Rain Jacket, Slim Fit",
    query="rain jacket",
    category="Clothing › Coats › Rain Jackets",
    nouns=["alpha", "rain", "jacket"],
    attributes=["slim fit", "water resistant"],
    options={"color": ["navy blue", "red"], "size": ["small", "large"]},
    price=25.0,
    price_tag="$25.00",
    rating="4.0",
    description="Made of recycled wool.",
    features=["Two pockets.", "Machine Washable"],
)
GOAL = Goal(0, "B1", "", ["water resistant", "machine washable"], ["navy", "large"], 30.0, "")
CHOSEN = {"color": "navy blue", "size": "large"}


@pytest.mark.parametrize(
    ("bought", "options", "wanted", "expected"),
    [
        (JACKET, CHOSEN, GOAL, 5 / 5),  # 2 attributes (one in the features alone), 2 options, the price
        (JACKET, {"color": "red", "size": "large"}, GOAL, 4 / 5),
        (JACKET, {}, GOAL, 3 / 5),
        (replace(JACKET, price=30.01), CHOSEN, GOAL, 4 / 5),
        (replace(JACKET, price=30.0), CHOSEN, GOAL, 5 / 5),
        (replace(JACKET, features=[]), CHOSEN, GOAL, 4 / 5),
        (replace(JACKET, attributes=[], features=[], price=99.0), {}, GOAL, 0 / 5),
        (JACKET, {}, replace(GOAL, options=[]), 3 / 3),
        (JACKET, {**CHOSEN, "trim": "navy"}, replace(GOAL, options=["navy"]), 4 / 4),  # an option counts once
        (replace(JACKET, title="Navy jacket"), {"color": "red"}, replace(GOAL, options=["navy"]), 3 / 4),
        (replace(JACKET, nouns=["rug"]), CHOSEN, GOAL, 0.0),
        (replace(JACKET, nouns=["rain"]), CHOSEN, GOAL, 1.0),  # a third of the nouns
    ],
)
def test_scores_worked_by_hand(bought: Product, options: dict[str, str], wanted: Goal, expected: float) -> None:
    assert score(bought, options, JACKET, wanted)["score"] == pytest.approx(expected, abs=1e-12)


def test_the_parts_of_a_score() -> None:
    other = replace(JACKET, features=[], price=31.0)
    parts = score(other, {"color": "navy", "size": "small"}, JACKET, GOAL)
    assert parts == {"score": 2 / 5, "r_type": 1.0, "r_att": 1 / 2, "r_option": 1 / 2, "r_price": 0.0}


@pytest.mark.parametrize(
    ("common", "change", "expected"),
    [
        (0, {}, 0.0),
        (1, {}, 0.1),  # 1 of 11 nouns
        (2, {}, 0.5),  # 2 of 11: at most a fifth
        (2, {"query": "rain jacket"}, 1.0),
        (2, {"category": "Coats › Clothing › Sale"}, 1.0),  # two names in common, in any order
        (2, {"category": "Clothing › Clothing › Sale"}, 0.5),
        (3, {}, 1.0),
    ],
)
def test_the_type_by_nouns_query_and_categories(common: int, change: dict[str, str], expected: float) -> None:
    nouns = [f"n{number}" for number in range(11)]
    other = replace(JACKET, query="hat", category="Hats", nouns=[*nouns[:common], "x"])
    assert type_factor(replace(other, **change), replace(JACKET, nouns=nouns)) == expected


def test_how_alike_words_must_be() -> None:
    assert likeness("essential oils", "essential oil") == round(100 * 2 * 13 / 27)
    assert likeness("powder snow", "cool powder snow") == 100  # all its words are in the other
    assert likeness("tea bag", "tea tree") < 85 and likeness("", "tea") == 0
    assert has_attribute(JACKET, "recycled wool") and not has_attribute(JACKET, "organic wool")
    assert same_option("color", "light blue", "blue") and not same_option("color", "navy", "red")
    assert same_option("pack", "pack of 6", "pack of 12")  # nearly equal words
    assert not same_option("size", "pack of 6", "pack of 12")
