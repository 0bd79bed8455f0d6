"""WebShop (Yao et al. 2022): ``env=webshop``, in a shop made here or with the official data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.environment import NEED_PLAN, Environment, GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.functions import CommandFunction

_FUNCTIONS = (
    CommandFunction("search", "the shop's search engine", pattern="search[{query}]"),
    CommandFunction("click", "a button, product or option of the page", pattern="click[{button}]"),
)


@dataclass(frozen=True)
class WebShopSettings:
    data_dir: str
    goals: str = field(metadata={"choices": ("human", "synthetic")})
    products: int = field(metadata={"range": (1000, 1_000_000)})


class WebShop(Environment):
    """Tasks: ``aATTRIBUTES-oOPTIONS``, how many of each an instruction names; ``all``: any."""

    name = "webshop"
    turns = 15
    more_games = "use env.task=all, or more attributes and options"
    package = "bm25s"
    modules = ("bm25s",)
    rewards = ("sparse", "dense")
    prompt = PromptStyle(
        "You are shopping online. Find, configure and buy a product that fits the instruction.",
        'Answer with one action: search[KEYWORDS] or click[BUTTON], such as "search[red scarf]" or "click[Buy Now]".',
        _FUNCTIONS,
    )
    Settings = WebShopSettings
    Env = "turngrid.envs.webshop.env:WebShopEnv"
    examples = ("all", *(f"a{attributes}-o{options}" for attributes in (1, 2, 3) for options in (0, 1, 2)))
    settings: WebShopSettings

    def parse_task(self, task: str) -> dict[str, Any]:
        """Return the numbers of attributes and options (None: any), and the shop."""
        self.check_task(task)
        attributes, options = map(int, re.findall(r"\d", task)) if task != "all" else (None, None)
        return {"attributes": attributes, "options": options, **self._source()}

    def _source(self) -> dict[str, Any]:
        settings = self.settings
        if not settings.data_dir:
            return {"products": settings.products}
        from turngrid.envs.webshop.official import files

        files(settings.data_dir, settings.goals)
        return {"goals": settings.goals}

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """Add the split, whose products no other has; of official data also a hash of them."""
        if "products" in params:
            return {**params, "split": split}
        from turngrid.envs.webshop import official

        data = official.digest(official.folder_of(params, self.settings.data_dir))
        return {**params, "split": split, "data": data, "needs_plan": split in NEED_PLAN}

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """Return the numbers of official instructions: WebShop's numbers of its sessions."""
        if "products" in params:
            return None
        from turngrid.envs.webshop.official import shop_of

        shop = shop_of(params, self.settings.data_dir)
        return shop.goals_of(params["split"], [params["attributes"], params["options"]])

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        import msgspec

        from turngrid.envs.webshop.env import SEARCH, plan
        from turngrid.envs.webshop.official import shop_of
        from turngrid.envs.webshop.products import draw_goal

        shop = shop_of(params, self.settings.data_dir)
        goal = shop.goals[seed] if shop.goals else draw_goal(shop, params, seed)
        actions = plan(shop, goal, SEARCH)
        if not actions and params.get("needs_plan", True):
            raise Rejected("the expert finds no product that earns 1")
        (folder / "goal.json").write_bytes(msgspec.json.encode(goal))
        return GameRecord("goal.json", goal=goal.instruction, expert_plan=actions, fingerprint=goal.same)
