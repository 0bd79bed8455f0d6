"""Shop in text."""

import re
from collections.abc import Callable

import msgspec

from turngrid.envs.environment import Params
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import InvalidAction, Observation, TaskRef
from turngrid.envs.webshop import pages
from turngrid.envs.webshop.expert import plan
from turngrid.envs.webshop.pages import BUY, SEARCH, Page
from turngrid.envs.webshop.reward import score
from turngrid.envs.webshop.shop import Goal, Shop

MAX_CHARS = 400  # of an action: a whole instruction fits into a search
_ACTION = re.compile(r"(search|click)\[(.+)\]", re.IGNORECASE)  # what follows is ignored, as in WebShop
_HELP = "Actions are search[KEYWORDS] and click[BUTTON]."
_NAME = 40  # characters of a button in a message
_READ = 4000  # characters of an answer in which an action is looked for


class WebShopEnv(TextEnv):
    """One instruction at a time; a purchase ends it, and its score is WebShop's."""

    def __init__(self, shop_of: Callable[[Params], Shop], *, legal: bool = False, expert: bool = False) -> None:
        self._shop_of, self._legal, self._expert = shop_of, legal, expert

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._goal = msgspec.json.decode(accepted_file(task).read_bytes(), type=Goal)
        self._shop = self._shop_of(task.params)
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
        target = {label.lower(): (label, page) for label, page in self._buttons().items()}.get(word)
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

    def _buttons(self) -> pages.Buttons:
        return pages.buttons(self._page, self._shop)

    def save_game(self) -> Page:
        return self._page

    def restore_game(self, saved: Page) -> None:
        self._page = saved

    def observe_message(self, message: str) -> Observation:
        text = pages.text(self._page, self._shop)
        expert = plan(self._shop, self._goal, self._page) if self._expert else ()
        return Observation(f"{message}\n{text}".lstrip(), legal=self._commands() if self._legal else (), expert=expert)

    def _commands(self) -> tuple[str, ...]:
        """Return the page's clicks; on the first page, a search for the instruction's words."""
        clicks = tuple(f"click[{label}]" for label in self._buttons())
        return clicks or (f"search[{self._goal.instruction.lower()[: MAX_CHARS - 10]}]",)
