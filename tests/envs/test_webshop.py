"""The shop made here: its products, pages, splits and expert, what an answer may be; and WebShop's
score of a purchase, worked by hand."""

import hashlib
import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from turngrid.envs.games.catalogue import SPLITS, Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import Call, TaskRef
from turngrid.envs.webshop import products
from turngrid.envs.webshop.env import SEARCH, Page, buttons_of, text_of
from turngrid.envs.webshop.products import DEPARTMENTS, draw_goal, own_shop, product
from turngrid.envs.webshop.reward import has_attribute, likeness, same_option, score, type_factor
from turngrid.envs.webshop.shop import CODES, TOP, Goal, Product, Shop, opened

SMALL = {"data_dir": "", "goals": "human", "products": 1000}


@pytest.fixture(scope="module")
def shop() -> Shop:
    return opened(own_shop(SMALL["products"]))


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> list[TaskRef]:
    catalogue = Catalogue(make_environment("webshop", SMALL), tmp_path_factory.mktemp("games"))
    return catalogue.tasks("a2-o2", "test", 20, reward="dense", workers=1, progress=False)


# ---- the products


def test_words_of_products_are_told_apart() -> None:
    """Otherwise a purchase would earn points for what it is not."""
    nouns = [word for department in DEPARTMENTS for kind in department.types for word in kind.split()]
    assert len(nouns) == len(set(nouns))
    for department in DEPARTMENTS:
        for one, other in itertools.combinations(department.attributes, 2):
            assert likeness(one, other) <= 85, (one, other)
        texts = [*department.types, *products._BRANDS, *department.looks, *department.sizes]
        assert not any(attribute in text.lower() for attribute in department.attributes for text in texts)
        assert not any(same_option(department.look, *pair) for pair in itertools.combinations(department.looks, 2))


def test_the_products_are_the_same_bytes_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path))
    folder = own_shop(1000)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in folder.glob("*.*")}
    assert digests == {
        "products.jsonl": "3eb0d355f651d566",
        "products.npy": "4829271fe6794ba7",
        "splits.npy": "2a286173a1a256d5",
    }
    assert len({product(number).asin for number in range(10_000)}) == 10_000
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, f".{folder.name}.lock"}


def test_searches(shop: Shop) -> None:
    for number in range(0, 1000, 50):
        assert number in shop.search(shop.product(number).title)
    found = shop.search("gluten free herbal tea")
    assert len(found) == TOP and len(set(found)) == TOP
    best = shop.product(found[0])
    assert best.query == "herbal tea" and "Gluten Free" in best.indexed.title()
    assert shop.search("") == shop.search("the of with") == shop.search("zzz {}[]") == ()
    assert shop.search("herbal tea herbal") == shop.search("Herbal TEA, herbal!")


# ---- the pages


def test_the_pages_have_webshops_form(shop: Shop) -> None:
    results = Page("herbal tea")
    parts = text_of(results, shop).split(" [SEP] ")
    first = shop.product(shop.search("herbal tea")[0])
    assert parts[:6] == [
        *("Back to Search", "Page 1 (Total results: 50)", "Next >", first.asin),
        *(first.title, first.price_tag),
    ]
    assert len(parts) == 3 + 3 * 10
    assert [*buttons_of(results, shop)][:3] == ["Back to Search", "Next >", first.asin]
    second = buttons_of(results, shop)["Next >"]
    assert text_of(second, shop).startswith("Back to Search [SEP] Page 2 (Total results: 50) [SEP] < Prev [SEP] Next >")
    assert "Next >" not in buttons_of(replace(results, number=5), shop)
    item = buttons_of(results, shop)[first.asin]
    (look, looks), (size, sizes) = first.options.items()
    facts = [first.title, f"Price: {first.price_tag}", f"Rating: {first.rating}"]
    shown = ["Back to Search", "< Prev", look, *looks, size, *sizes, *facts]
    shown += ["Description", "Features", "Reviews", "Buy Now"]
    assert text_of(item, shop).split(" [SEP] ") == shown
    red = buttons_of(item, shop)[looks[1]]
    large = buttons_of(red, shop)[sizes[2]]
    assert text_of(large, shop).startswith(f"You have clicked {looks[1]}.\nYou have clicked {sizes[2]}.\nBack to")
    assert dict(buttons_of(large, shop)[looks[0]].options) == {look: looks[0], size: sizes[2]}
    text = buttons_of(large, shop)["Description"]
    assert text_of(text, shop) == f"Back to Search [SEP] < Prev [SEP] {first.description}"
    assert buttons_of(text, shop) == {"Back to Search": SEARCH, "< Prev": large}
    assert buttons_of(large, shop)["< Prev"] == results
    assert text_of(Page("zzz"), shop) == "Back to Search [SEP] Page 1 (Total results: 0)"


# ---- the games


def test_splits_share_no_product_and_equal_instructions_are_one_game(shop: Shop) -> None:
    """Whatever the price, how it begins, and the order of its attributes."""
    environment = make_environment("webshop", SMALL)
    asked: dict[str, str] = {}
    for split in SPLITS:
        params = environment.for_split(environment.parse_task("all"), split)
        for seed in SPLITS[split][:200]:
            goal = draw_goal(shop, params, seed)
            assert asked.setdefault(goal.asin, params["split"]) == params["split"]
    assert Counter(asked.values()).keys() == CODES.keys()
    params = environment.for_split(environment.parse_task("a2-o1"), "train")
    goals = [draw_goal(shop, params, seed) for seed in range(2000)]
    facts = {(shop.product(goal.product).query, *sorted(goal.attributes), *goal.options) for goal in goals}
    assert len({goal.same for goal in goals}) == len(facts) < len({goal.instruction for goal in goals})


def test_the_expert_wins_from_wherever_a_customer_is(games: list[TaskRef]) -> None:
    """An instruction names what is scored."""
    draw, env = random.Random(5), make_environment("webshop", SMALL).env(legal=True, expert=True)
    for task in games:
        goal = json.loads(Path(task.game_file).read_text())
        words = [*goal["attributes"], *goal["options"], f"price lower than {goal['price_upper']:.2f}"]
        assert all(word in task.goal for word in words) and len(words) == 5
        seen = env.reset(task, 0)
        for _ in range(draw.randint(1, 9)):
            actions = [action for action in seen.legal if action != "click[Buy Now]"]
            action = draw.choice([*actions, *(actions[:1] if len(actions) > 1 else [f"search[{task.goal}]"])])
            result = env.step(action)
            assert result.valid and not result.over
            seen = result.observation
        for left in range(len(seen.expert), 0, -1):
            assert len(seen.expert) == left
            result = env.step(seen.expert[0])
            seen = result.observation
        assert result.won and result.score_delta == 1


def test_another_purchase_loses_with_its_share_of_the_score(games: list[TaskRef], shop: Shop) -> None:
    env, task = make_environment("webshop", SMALL).env(), games[0]
    goal = json.loads(Path(task.game_file).read_text())
    target = shop.product(goal["product"])
    cheap = next(n for n in range(1000) if shop.product(n).query == target.query and shop.product(n).price < 20)
    bought = shop.product(cheap)
    env.reset(task, 0)
    env.step(f"search[{bought.title}]")
    env.step(f"click[{bought.asin.lower()}]")
    result = env.step("Click[buy now] thanks")
    met = len(set(goal["attributes"]) & set(bought.attributes))
    price = bought.price <= goal["price_upper"]
    assert result.score_delta == pytest.approx((met + price) / 5) and result.info["r_option"] == 0
    assert result.lost and result.terminated and not result.won


HOSTILE = [
    *('click["]', "click[']", "click[${x}]", "click[__import__('os').system('x')]", "search[]", "search[ ]", "click[]"),
    *("click[B000000000]", "search", "click[Buy Now]", "buy", "searc[h]", "click[<script>alert(1)</script>]"),
    *("click[" + "x" * 200_000 + "]", "[" * 200_000, "click[" * 40_000, "search[" + "a " * 100_000 + "]"),
    *("click[\u202e\u0000\ud800]", "click[caf\u00e9 \u4e2d\u6587]", "click[x\nsearch[y]", '{"name": "click"}' * 9_000),
]


def test_hostile_answers_change_nothing_and_any_words_may_be_searched(games: list[TaskRef]) -> None:
    env = make_environment("webshop", SMALL).new_env()
    opening = env.reset(games[0], 0).text
    for text in (*HOSTILE, *(str(Call("click", {"button": answer})) for answer in HOSTILE)):
        result = env.step(text)
        assert not result.valid and result.score_delta == 0 and not result.over, ascii(text[:40])
        assert result.observation.text.endswith(opening) and len(result.observation.text) < 400
        result.observation.text.encode()
    for query in ("'; drop table --", "\u202e\u0000 caf\u00e9 \u4e2d\u6587", "a] click[Buy Now", "{0} %s \\x41"):
        for action in (f"search[{query}]", str(Call("search", {"query": query}))):
            result = env.step(action)
            assert result.valid and "(Total results: " in result.observation.text and not result.over
    env.step("click[Back to Search]")
    assert [env.step(action).won for action in games[0].expert_plan][-1]


# ---- the score

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
