"""Plan a purchase that earns 1, from any page."""

from turngrid.envs.webshop import pages
from turngrid.envs.webshop.pages import BUY, Page
from turngrid.envs.webshop.reward import same_option, score
from turngrid.envs.webshop.shop import Goal, Product, Shop

Options = dict[str, str]


def plan(shop: Shop, goal: Goal, page: Page) -> tuple[str, ...]:
    """Return actions that earn 1: buy what is shown, or the first such product of the results, or
    search anew, with the instruction's words. () if no product of the results earns 1.
    """
    if page.product is not None and (options := winning(shop, goal, page.product)) is not None:
        back = ("click[< Prev]",) if page.part else ()
        return (*back, *_choices(options, page), f"click[{BUY}]")
    if page.query is not None and page.product is None and (actions := _from_results(shop, goal, page)):
        return actions
    queries = (_words_of(shop, goal), goal.instruction.lower())
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


def _words_of(shop: Shop, goal: Goal) -> str:
    return " ".join([*goal.attributes, shop.product(goal.product).query, *goal.options])


def _from_results(shop: Shop, goal: Goal, page: Page) -> tuple[str, ...]:
    """Return the way to the first product, from this page of results on, that earns 1."""
    for place, number in enumerate(shop.search(page.query or "")):
        turns = pages.page_of(place) - page.number
        if turns >= 0 and (options := winning(shop, goal, number)) is not None:
            clicks = (f"click[{shop.product(number).asin}]", *_choices(options, Page()), f"click[{BUY}]")
            return ("click[Next >]",) * turns + clicks
    return ()


def _choices(options: Options, page: Page) -> tuple[str, ...]:
    chosen = dict(page.options)
    return tuple(f"click[{value}]" for name, value in options.items() if chosen.get(name) != value)
