"""Questions answered with a search tool over fictional worlds made here: ``env=search``.

bm25s takes a while to import, so only processes that make or run games import it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CommandFunction
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

TEST_SPLITS = ("new_names", "new_wording")
_EXTRA_TURNS = 3
_TASK = re.compile(r"h([1-4])(?:-([1-4]))?")
_NAMES = {"test": "test", "test_paper": "test", "validation": "validation"}  # other splits: train
_FUNCTIONS = (
    CommandFunction("search", "the passages that fit these words best", pattern="search {query}"),
    CommandFunction("answer", "the answer, in a few words; it ends the episode", pattern="answer {text}"),
)


@dataclass(frozen=True)
class SearchSettings:
    """Keys of ``env`` for ``env=search``; conf/env/search.yaml explains them."""

    worlds: int = field(metadata={"range": (1, 10_000)})
    passages: int = field(metadata={"range": (100, 20_000)})  # more would exhaust the names
    distractors: float = field(metadata={"range": (0, 20)})
    test_split: str
    top_k: int = field(metadata={"range": (1, 100)})
    result_chars: int = field(metadata={"range": (100, 1_000_000)})


class Search(Environment):
    """Tasks: ``hHOPS`` or ``hLEAST-MOST``, the facts that lead to the answer."""

    name = "search"
    rewards = ("sparse", "dense", "f1")
    prompt = PromptStyle(
        "You answer a question with a search tool.",
        "Answer with one action: search WORDS to see passages, or answer WORDS to end with your answer.",
        _FUNCTIONS,
    )
    Settings = SearchSettings
    examples = ("h1", "h2", "h3", "h4", "h1-4")
    agent_stops = True

    @property
    def version(self) -> str:
        return f"bm25s-{version('bm25s')}-1"

    def parse_task(self, task: str) -> dict[str, Any]:
        settings = self.settings
        match = _TASK.fullmatch(str(task))
        hops = [int(match[1]), int(match[2] or match[1])] if match else []
        if hops != sorted(hops) or not hops:
            raise TaskError(f"unknown task {task!r} of search; use {nearest(str(task), self.examples)}")
        if settings.test_split not in TEST_SPLITS:
            near = nearest(settings.test_split, TEST_SPLITS)
            raise TaskError(f"env.test_split={settings.test_split} is unknown; use env.test_split={near}")
        if find_spec("bm25s") is None:
            raise TaskError('env=search needs bm25s: pip install "turngrid[search]"')
        sizes = {"worlds": settings.worlds, "passages": settings.passages, "distractors": settings.distractors}
        return {"hops": hops, **sizes, "top_k": settings.top_k, "result_chars": settings.result_chars}

    def max_turns(self, task: str) -> int:
        return self.parse_task(task)["hops"][-1] + _EXTRA_TURNS

    def optimal_turns(self, params: Params) -> int | None:
        least, most = params["hops"]
        return least + 1 if least == most else None

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        names = _NAMES.get(split, "train")
        new = names == "test" and self.settings.test_split == "new_wording"
        return {**params, "names": names, "wording": "new" if new else "usual"}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        import random

        from turngrid.envs.search.games import ask, collection_of, fingerprint, written
        from turngrid.envs.search.world import WorldSpec

        rest = (params["passages"], params["distractors"], params["wording"])
        collection = collection_of(WorldSpec(params["names"], seed % params["worlds"], *rest))
        draw = random.Random(f"search question {seed}")
        hops = draw.randint(*params["hops"])
        question = ask(collection, hops, params["top_k"], params["result_chars"], draw)
        (folder / "game.json").write_text(written(collection, question))
        same = fingerprint(collection.world, question)
        return GameRecord("game.json", "", question.text, question.plan, same, hops + 1)

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from turngrid.envs.search.env import SearchEnv
        from turngrid.envs.search.games import collection_in

        return SearchEnv(collection_in, legal=legal, expert=expert)
