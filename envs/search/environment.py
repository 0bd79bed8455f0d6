"""Questions answered with a search tool, over worlds made here or users' files: ``env=search``.

bm25s takes a while to import, so only processes that make or run games import it.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.environment import HELD_OUT, Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CommandFunction
from turngrid.envs.search.files import QuestionFiles
from turngrid.envs.types import TaskError

_FILE_TURNS = 5
_EXTRA_TURNS = 3
_TASK = re.compile(r"h([1-4])(?:-([1-4]))?")
_FUNCTIONS = (
    CommandFunction("search", "the passages that fit these words best", pattern="search {query}"),
    CommandFunction("answer", "the answer, in a few words; it ends the episode", pattern="answer {text}"),
)


@dataclass(frozen=True)
class SearchSettings:
    worlds: int = field(metadata={"range": (1, 10_000)})
    passages: int = field(metadata={"range": (100, 20_000)})  # more would exhaust the names
    distractors: float = field(metadata={"range": (0, 20)})
    test_split: str = field(metadata={"choices": ("new_names", "new_wording")})
    top_k: int = field(metadata={"range": (1, 100)})
    result_chars: int = field(metadata={"range": (100, 1_000_000)})
    tell_budget: int | None = field(metadata={"range": (1, 1000)})
    data_dir: str
    corpus: str
    url: str
    timeout_s: float = field(metadata={"range": (0.1, 3600)})


class Search(Environment):
    """Tasks: ``hHOPS`` or ``hLEAST-MOST``, facts to the answer; or a folder of ``env.data_dir``."""

    name = "search"
    package = "bm25s"
    modules = ("bm25s",)
    recipe = 2
    rewards = ("sparse", "dense", "f1")
    prompt = PromptStyle(
        "You answer a question with a search tool.",
        "Answer with one action: search WORDS to see passages, or answer WORDS to end with your answer.",
        _FUNCTIONS,
    )
    Settings = SearchSettings
    Env = "turngrid.envs.search.env:SearchEnv"
    examples = ("h1", "h2", "h3", "h4", "h1-4")
    agent_stops = True
    answering = "answer {}"

    @property
    def longest_step_s(self) -> float:  # type: ignore[override]
        if not self.settings.url:
            return 0.0
        from turngrid.envs.search.retrieval import WAITS_S

        return (1 + len(WAITS_S)) * self.settings.timeout_s + sum(WAITS_S)

    def parse_task(self, task: str) -> dict[str, Any]:
        settings = self.settings
        self.check_modules()
        check_settings(settings)
        shown: dict[str, Any] = {"top_k": settings.top_k, "result_chars": settings.result_chars}
        if (budget := settings.tell_budget) is not None:  # else absent: games have the key that they always had
            shown["searches"] = budget
        if settings.data_dir:
            files = self.files(str(task))
            files.check()
            return {"set": files.task, "paragraphs": files.paragraphs, **shown}
        match = _TASK.fullmatch(str(task))
        hops = [int(match[1]), int(match[2] or match[1])] if match else []
        if hops != sorted(hops) or not hops:
            raise self.unknown(task)
        if budget is not None and budget < hops[1]:
            needs = f"a question of {task} may need {hops[1]} searches"
            raise TaskError(f"env.tell_budget={budget}: {needs}; use env.tell_budget={hops[1]}")
        sizes = {"worlds": settings.worlds, "passages": settings.passages, "distractors": settings.distractors}
        return {"hops": hops, **sizes, **shown}

    def files(self, task: str) -> QuestionFiles:
        settings = self.settings
        return QuestionFiles(settings.data_dir, task, not settings.corpus and not settings.url)

    def max_turns(self, task: str) -> int:
        params = self.parse_task(task)
        searches = params.get("searches") or params.get("hops", [_FILE_TURNS - _EXTRA_TURNS])[-1]
        return searches + _EXTRA_TURNS

    def optimal_turns(self, params: Params) -> int | None:
        least, most = params.get("hops", (0, 1))
        return least + 1 if 1 < least == most else None  # a stated fact needs no search

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        share = split if split in HELD_OUT else "train"  # of the names, or of a user's files
        if "set" in params:
            return {**params, "split": share}
        new = share == "test" and self.settings.test_split == "new_wording"
        return {**params, "names": share, "wording": "new" if new else "usual"}

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """List a set's questions, and index their collection: a game's reset has a deadline."""
        if "set" not in params:
            return None
        if self.settings.corpus:
            from turngrid.envs.search.retrieval import indexed

            indexed(Path(self.settings.corpus).expanduser())
        return [row.seed for row in self.files(params["set"]).of_split(split)]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        if "set" in params:
            return self.files(params["set"]).make(seed, params["split"], folder)
        from turngrid.envs.search.games import ask, collection_of, content_of, fingerprint
        from turngrid.envs.search.world import WorldSpec

        rest = (params["passages"], params["distractors"], params["wording"])
        collection = collection_of(WorldSpec(params["names"], seed % params["worlds"], *rest))
        draw = random.Random(f"search question {seed}")
        hops = draw.randint(*params["hops"])
        question = ask(collection, hops, params["top_k"], params["result_chars"], draw)
        about: dict[str, Any] = {"goal": question.text, "expert_plan": question.plan, "max_score": len(question.plan)}
        same = fingerprint(collection.world, question)
        return GameRecord.written(folder, content_of(collection, question), fingerprint=same, **about)


def check_settings(settings: SearchSettings) -> None:
    """Raise TaskError if ``env.url`` or ``env.corpus`` is invalid or does not fit other keys."""
    if settings.url and not settings.url.startswith(("http://", "https://")):
        raise TaskError(f"env.url={settings.url} is no server's address; use env.url=http://HOST:8000/retrieve")
    for key, value in {"env.corpus": settings.corpus, "env.url": settings.url}.items():
        if value and not settings.data_dir:
            raise TaskError(f"{key}={value}: the worlds made here have their own passages; use env.data_dir too")
    if settings.corpus and settings.url:
        raise TaskError(f"env.corpus={settings.corpus}: the server at env.url searches its own; use env.corpus=''")
    if settings.corpus and not Path(settings.corpus).expanduser().is_file():
        raise TaskError(f"env.corpus={settings.corpus}: no such file; use a .jsonl file of passages with contents")
