"""Shop in text: pages in the form of WebShop's mode ``text``, their buttons, and plans of purchases
that earn 1, from any page.
"""

import re
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import InvalidAction, Observation, TaskRef
from turngrid.envs.webshop.official import shop_of
from turngrid.envs.webshop.reward import same_option, score
from turngrid.envs.webshop.shop import Goal, Product, Shop

BUY = "Buy Now"
_BACK, _PREVIOUS, _NEXT = "Back to Search", "< Prev", "Next >"
_PARTS = ("Description", "Features", "Reviews")
_ON_A_PAGE = 10
_SEPARATOR = " [SEP] "
Options = dict[str, str]
MAX_CHARS = 400  # of an action: a whole instruction fits into a search
_ACTION = re.compile(r"(search|click)\[(.+)\]", re.IGNORECASE)  # what follows is ignored, as in WebShop
_HELP = "Actions are search[KEYWORDS] and click[BUTTON]."
_NAME = 40  # characters of a button in a message
_READ = 4000  # characters of an answer in which an action is looked for


@dataclass(frozen=True)
class Page:
    """Page of a customer: the search, results, a product, or a part of its text.

    Attributes:
        query: None before a search.
        number: of the page of results, from 1.
        product: its number in the shop; None on results.
        options: chosen names and values, in the order of the choices.
        part: Description, Features or Reviews; "" for none.
    """

    query: str | None = None
    number: int = 1
    product: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    part: str = ""

    def chosen(self, name: str, value: str) -> Self:
        return replace(self, options=tuple({**dict(self.options), name: value}.items()), part="")


SEARCH = Page()
Buttons = dict[str, Page]


def buttons_of(page: Page, shop: Shop) -> Buttons:
    """Return the page behind each button; buying leads to the search."""
    if page.query is None:
        return {}
    if page.product is None:
        products = {shop.product(number).asin: replace(page, product=number) for number in _shown(page, shop)}
        return {_BACK: SEARCH, **_turns(page, shop), **products}
    if page.part:
        return {_BACK: SEARCH, _PREVIOUS: replace(page, part="")}
    options = shop.product(page.product).options.items()
    values = {value: page.chosen(name, value) for name, values in options for value in values}
    parts = {part: replace(page, part=part) for part in _PARTS}
    return {_BACK: SEARCH, _PREVIOUS: Page(page.query, page.number), **values, **parts, BUY: SEARCH}


def text_of(page: Page, shop: Shop) -> str:
    """Return what a page shows; the instruction is left out, since it is the task's goal."""
    if page.query is None:
        return "Search"
    if page.product is None:
        return _SEPARATOR.join(_results(page, shop))
    product = shop.product(page.product)
    if page.part:
        return _SEPARATOR.join([_BACK, _PREVIOUS, *_part(product, page.part)])
    clicked = "".join(f"You have clicked {value}.\n" for _, value in page.options)
    options = [part for name, values in product.options.items() for part in (name, *values)]
    facts = [product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}"]
    return clicked + _SEPARATOR.join([_BACK, _PREVIOUS, *options, *facts, *_PARTS, BUY])


def page_of(index: int) -> int:
    """Return the number of the page of results that shows the result at ``index``, from 0."""
    return index // _ON_A_PAGE + 1


def _results(page: Page, shop: Shop) -> list[str]:
    products = [shop.product(number) for number in _shown(page, shop)]
    shown = [part for product in products for part in (product.asin, product.title, product.price_tag)]
    total = len(shop.search(page.query or ""))
    return [_BACK, f"Page {page.number} (Total results: {total})", *_turns(page, shop), *shown]


def _part(product: Product, part: str) -> list[str]:
    if part == "Description":
        return [product.description or "No Description"]
    return (product.features or ["No Features"]) if part == "Features" else ["No reviews found"]


def _turns(page: Page, shop: Shop) -> Buttons:
    """Return the buttons that turn the pages of results."""
    last = page_of(len(shop.search(page.query or "")) - 1)
    before = {_PREVIOUS: replace(page, number=page.number - 1)} if page.number > 1 else {}
    return {**before, **({_NEXT: replace(page, number=page.number + 1)} if page.number < last else {})}


def _shown(page: Page, shop: Shop) -> tuple[int, ...]:
    start = (page.number - 1) * _ON_A_PAGE
    return shop.search(page.query or "")[start : start + _ON_A_PAGE]


def plan(shop: Shop, goal: Goal, page: Page) -> tuple[str, ...]:
    """Return actions that earn 1; () if no product of the results does.

    Buy the product that is shown, or the first one of the results that earns 1, or search anew with
    the instruction's words.
    """
    if page.product is not None and (options := winning(shop, goal, page.product)) is not None:
        back = ("click[< Prev]",) if page.part else ()
        return (*back, *_choices(options, page), f"click[{BUY}]")
    if page.query is not None and page.product is None and (actions := _from_results(shop, goal, page)):
        return actions
    words = " ".join([*goal.attributes, shop.product(goal.product).query, *goal.options])
    queries = (words, goal.instruction.lower())
    plans = ((query, _from_results(shop, goal, Page(query))) for query in queries)
    return next(((f"search[{query}]", *actions) for query, actions in plans if actions), ())


def winning(shop: Shop, goal: Goal, number: int) -> Options | None:
    """Return the options to choose so that a product earns 1; None if it cannot."""
    product = shop.product(number)
    options = _wanted(product, goal)
    return options if score(product, options, shop.product(goal.product), goal)["score"] == 1 else None


def _wanted(product: Product, goal: Goal) -> Options:
    """Return the values that fit the goal's best, each of another option."""
    options: Options = {}
    for wanted in goal.options:
        free = [(name, value) for name, values in product.options.items() if name not in options for value in values]
        fitting = [(name, value) for name, value in free if same_option(name, value, wanted)]
        options |= dict(sorted(fitting, key=lambda option: option[1] != wanted)[:1])
    return options


def _from_results(shop: Shop, goal: Goal, page: Page) -> tuple[str, ...]:
    """Return the way to the first product, from this page of results on, that earns 1."""
    for index, number in enumerate(shop.search(page.query or "")):
        turns = page_of(index) - page.number
        if turns >= 0 and (options := winning(shop, goal, number)) is not None:
            clicks = (f"click[{shop.product(number).asin}]", *_choices(options, Page()), f"click[{BUY}]")
            return ("click[Next >]",) * turns + clicks
    return ()


def _choices(options: Options, page: Page) -> tuple[str, ...]:
    chosen = dict(page.options)
    return tuple(f"click[{value}]" for name, value in options.items() if chosen.get(name) != value)


class WebShopEnv(TextEnv):
    """One instruction at a time; a purchase ends it, and its score is WebShop's."""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._goal = msgspec.json.decode(accepted_file(task).read_bytes(), type=Goal)
        self._shop = shop_of(task.params, self._settings.data_dir)
        self._page = SEARCH
        return self.observe_message("")

    def clean_action(self, action: str) -> str:
        """Return the first line with its words; names of products may have any letter."""
        line = next((line for line in action[:_READ].splitlines() if line.strip()), "")
        return " ".join(line.split())[:MAX_CHARS]

    def step_game(self, command: str) -> RawStep:
        if not (action := _ACTION.match(command)) or not (word := action[2].strip().lower()):
            raise InvalidAction(_HELP)
        if action[1].lower() == "search":
            self._page = Page(word)
            return RawStep(self.observe_message(""), 0.0)
        buttons = buttons_of(self._page, self._shop).items()
        target = {label.lower(): (label, page) for label, page in buttons}.get(word)
        if target is None:
            raise InvalidAction(f"There is no button {word[:_NAME]!r} on this page.")
        if target[0] == BUY:
            return self._bought()
        self._page = target[1]
        return RawStep(self.observe_message(""), 0.0)

    def _bought(self) -> RawStep:
        bought, target = (self._shop.product(number) for number in (self._page.product or 0, self._goal.product))
        parts = score(bought, dict(self._page.options), target, self._goal)
        self._page = SEARCH
        end = f"Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] {parts['score']:.3f}"
        return RawStep(Observation(end), parts["score"], parts["score"] == 1, parts["score"] < 1, info=parts)

    def observe_message(self, message: str) -> Observation:
        return super().observe_message(f"{message}\n{text_of(self._page, self._shop)}".lstrip())

    def expert_actions(self) -> tuple[str, ...]:
        return plan(self._shop, self._goal, self._page)

    def legal_actions(self) -> tuple[str, ...]:
        """Return the page's clicks; on the first page, a search for the instruction's words."""
        clicks = tuple(f"click[{label}]" for label in buttons_of(self._page, self._shop))
        return clicks or (f"search[{self._goal.instruction.lower()[: MAX_CHARS - 10]}]",)
