"""WebShop's own files, in small: read as its ``engine.py`` and ``goal.py`` read them (the data
itself is a download)."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made import made, played

from turngrid.envs.environment import Environment, Rejected
from turngrid.envs.registry import make_environment
from turngrid.envs.types import EnvError, TaskError, TaskRef
from turngrid.envs.webshop import official, shop

Json = Any


def item(number: int, **changes: Json) -> dict[str, Json]:
    color = [{"value": " Navy/Blue ", "image": None}, {"value": "Red"}]
    product = {
        "asin": f"A{number:03}",
        "name": f"Men's Jacket No {number} for Rain, Café",
        "query": "Rain Jackets ",
        "category": "fashion",
        "product_category": "Clothing › Men › Jackets",
        "full_description": "Warm.",
        "small_description": ["Two pockets", "Zipper"],
        "pricing": f"${10 + number}.50",
        "customization_options": {"Color": color, "Size": [{"value": "L"}, {"value": "XL"}], "Fit": None},
        "images": ["x.jpg"],
    }
    return {**product, **changes}


ODD = [item(3), item(0, asin="nan"), item(0, asin="A" * 11)]  # twice, and two that WebShop skips
PRICES = [
    ("$1,099.00", 1099.0, 1099.0, "$1099.0"),
    ("$2.99$7.50", 2.99, 7.5, "$2.99 to $7.5"),
    *((nothing, 100.0, 100.0, "$100.0") for nothing in ("", None)),
]


def ordered(number: int) -> list[dict[str, Json]]:
    """Two instructions of a product, and one without attributes, which WebShop skips."""
    kinds = [{"color": "navy | blue", "size": "l"}, ["red"], []]
    asked = [(f"i want jacket {number} {name}.", options) for name, options in zip("abc", kinds, strict=True)]
    return [
        {
            "instruction": text,
            "instruction_attributes": ["long lasting"] * (text[-2] != "c"),
            "instruction_options": options,
        }
        for text, options in asked
    ]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, "items_shuffle_1000.json", [*map(item, range(40)), *ODD])
    attributes = {f"A{number:03}": about(number) for number in range(40)}
    write(folder, "items_ins_v2_1000.json", attributes)
    write(folder, "items_human_ins.json", {f"A{number:03}": ordered(number) for number in range(40)})
    return folder


def about(number: int) -> dict[str, Json]:
    asked = {"instruction": f"Find me jacket {number}", "instruction_attributes": ["long lasting"]}
    return {"attributes": ["long lasting", "slim fit"], **(asked if number < 5 else {})}


def write(folder: Path, name: str, content: Json) -> None:
    (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def family(data: Path, goals: str = "human") -> Environment:
    return make_environment("webshop", {"data_dir": str(data), "goals": goals, "products": 1000})


def params(environment: Environment, split: str, task: str = "all") -> dict[str, Json]:
    return environment.for_split(environment.parse_task(task), split)


def game(environment: Environment, split: str, seed: int, folder: Path) -> TaskRef:
    return made(environment, "all", seed, folder, split)


def test_products_are_read_as_webshop_reads_them(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "_CHUNK", 100)  # an item is longer
    priced = [item(40 + number, pricing=pricing) for number, (pricing, *_) in enumerate(PRICES)]
    write(data, "items_shuffle_1000.json", [*map(item, range(40)), *ODD, *priced])
    opened = official.shop_of(params(family(data), "test"), str(data))
    assert len(opened._products) == 40 + len(PRICES)
    first = opened.product(0)
    assert first.options == {"color": ["navy | blue", "red"], "size": ["l", "xl"]}
    assert (first.query, first.price, first.price_tag, first.features) == (
        *("rain jackets", 10.5, "$10.5"),
        ["Two pockets", "Zipper"],
    )
    assert first.nouns == ["men", "jacket", "no", "rain", "café"]
    assert first.attributes == ["long lasting", "slim fit"]
    for number, (pricing, least, most, tag) in enumerate(PRICES):
        product = opened.product(40 + number)
        assert least <= product.price <= most and product.price_tag == tag


def test_test_games_are_webshops_first_and_no_product_is_in_two_splits(data: Path) -> None:
    environment = family(data)
    asked = [(f"A{n:03}", f"i want jacket {n} {name}") for n in range(40) for name in "ab"]
    random.Random(233).shuffle(asked)  # WebShop shuffles its list with this seed
    opened = official.shop_of(params(environment, "test"), str(data))
    assert [
        (goal.asin, goal.instruction.split(", and price")[0]) for goal in map(opened.goals.__getitem__, range(80))
    ] == asked
    seeds = {split: environment.seeds(params(environment, split), split) for split in shop.CODES}
    assert seeds["test"] == list(range(20))  # a quarter, if that is less than WebShop's 500
    owners = {split: {opened.goals[seed].asin for seed in numbers} for split, numbers in seeds.items()}
    assert sum(map(len, owners.values())) == len(set.union(*owners.values())) == 40
    assert all(owners.values())
    sizes = {name: environment.seeds(params(environment, "test", name), "test") for name in environment.examples}
    assert sorted(sizes["a1-o1"] + sizes["a1-o2"]) == sizes["all"] and not sizes["a2-o1"] + sizes["a1-o0"]
    assert {tuple(opened.goals[seed].options) for seed in sizes["a1-o2"]} == {("navy | blue", "l")}


def test_synthetic_instructions_are_all_combinations(data: Path) -> None:
    (data / "items_human_ins.json").unlink()
    environment = family(data, "synthetic")
    goals = official.shop_of(params(environment, "test"), str(data)).goals
    assert len(goals) == 5 * 4
    texts = {goals[number].instruction.split(", and price")[0] for number in range(20)}
    assert "Find me jacket 3 with color: navy | blue, and size: xl" in texts


def test_the_expert_wins_where_a_product_can_and_only_demonstrations_need_that(data: Path, tmp_path: Path) -> None:
    """Some options of people are none of a product's, so WebShop's test set has such games."""
    write(data, "items_human_ins.json", {f"A{number:03}": ordered(number)[:1] for number in range(40)})
    environment = family(data)
    [seed] = environment.seeds(params(environment, "test"), "test")[:1]
    task = game(environment, "test", seed, tmp_path)
    assert "click[navy | blue]" in task.expert_plan
    assert played(environment.new_env(), task)[1][-1].won
    given = [{"instruction": "a hat", "instruction_attributes": ["warm hat"], "instruction_options": ["polka dots"]}]
    write(data, "items_human_ins.json", {f"A{number:03}": given for number in range(40)})
    assert game(environment, "test", 0, tmp_path).expert_plan == ()
    seed = environment.seeds(params(environment, "demonstrations"), "demonstrations")[0]
    with pytest.raises(Rejected, match="the expert finds no product that earns 1"):
        game(environment, "demonstrations", seed, tmp_path)


def test_equal_files_are_equal_games_and_other_files_are_refused(data: Path, tmp_path: Path) -> None:
    task = game(family(data), "test", 0, tmp_path)
    os.utime(data / "items_human_ins.json", (1, 1))
    assert params(family(data), "test") == task.params
    family(data).new_env().reset(task, 0)
    write(data, "items_human_ins.json", {f"A{number:03}": ordered(number) for number in range(39)})
    with pytest.raises(EnvError, match="the files in env.data_dir are not those that the games were made of"):
        family(data).new_env().reset(task, 0)


BROKEN: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "page": ("items_shuffle_1000.json", lambda _: b"<!DOCTYPE html>Too many downloads", "no whole JSON list"),
    "cut": ("items_shuffle_1000.json", lambda old: old[: len(old) // 2], "no whole JSON list"),
    "empty": ("items_shuffle_1000.json", lambda _: b"[]", "no whole JSON list"),
    "numbers": ("items_shuffle_1000.json", lambda _: b"[1, 2]", "an entry that is no product"),
    "field": ("items_shuffle_1000.json", lambda old: old.replace(b'"name"', b'"nome"'), "a field is missing"),
    "table": ("items_ins_v2_1000.json", lambda _: b"[]", "no table by asin"),
    "cut table": ("items_human_ins.json", lambda old: old[:-1], "is not JSON"),
    "nothing asked": ("items_human_ins.json", lambda _: b"{}", "no instruction in items_human_ins.json"),
}


@pytest.mark.parametrize(("name", "spoil", "why"), BROKEN.values(), ids=BROKEN)
def test_a_wrong_file_or_none_is_named(data: Path, name: str, spoil: Callable[[bytes], bytes], why: str) -> None:
    (data / name).write_bytes(spoil((data / name).read_bytes()))
    with pytest.raises(TaskError, match=f"^env.data_dir.*{why}"):
        params(family(data), "test")
    (data / name).unlink()
    with pytest.raises(TaskError, match=rf"^env.data_dir={data}: there is no {name}; .*setup.sh.*WebShop"):
        family(data).parse_task("all")
