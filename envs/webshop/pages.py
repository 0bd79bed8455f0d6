"""The pages of a shop: their text, in the form of WebShop's mode ``text``, and their buttons."""

from __future__ import annotations

from dataclasses import dataclass, replace

from turngrid.envs.webshop.shop import Product, Shop

BUY = "Buy Now"
_BACK, _PREVIOUS, _NEXT = "Back to Search", "< Prev", "Next >"
_PARTS = ("Description", "Features", "Reviews")
_ON_A_PAGE = 10


@dataclass(frozen=True)
class Page:
    """Where a customer is: at the search, or on results, a product, or a part of its text.

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

    def chosen(self, name: str, value: str) -> Page:
        return replace(self, options=tuple({**dict(self.options), name: value}.items()), part="")


SEARCH = Page()
Buttons = dict[str, Page]


def buttons(page: Page, shop: Shop) -> Buttons:
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


def text(page: Page, shop: Shop) -> str:
    """Return what a page shows; the instruction is left out, since it is the task's goal."""
    if page.query is None:
        return "Search"
    if page.product is None:
        return _joined(_results(page, shop))
    product = shop.product(page.product)
    if page.part:
        return _joined([_BACK, _PREVIOUS, *_part(product, page.part)])
    clicked = "".join(f"You have clicked {value}.\n" for _, value in page.options)
    options = [part for name, values in product.options.items() for part in (name, *values)]
    facts = [product.title, f"Price: {product.price_tag}", f"Rating: {product.rating}"]
    return clicked + _joined([_BACK, _PREVIOUS, *options, *facts, *_PARTS, BUY])


def page_of(place: int) -> int:
    """Return the number of the page of results that shows the result at ``place``, from 0."""
    return place // _ON_A_PAGE + 1


def _joined(parts: list[str]) -> str:
    return " [SEP] ".join(parts)


def _results(page: Page, shop: Shop) -> list[str]:
    found = [shop.product(number) for number in _shown(page, shop)]
    shown = [part for product in found for part in (product.asin, product.title, product.price_tag)]
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
