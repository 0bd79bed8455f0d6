"""Answer a question with a search tool."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from turngrid.envs.search.files import exact_match, f1, normalised
from turngrid.envs.search.games import collection_in
from turngrid.envs.search.retrieval import Finder, GoldFact, corpus_of, cut, search_in, server_of, shows, words
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import TASK_TYPE, InvalidAction, Observation, TaskRef
from turngrid.envs.utils.printable import printable

MAX_CHARS = 300
_COMMAND = re.compile(r"(search|answer)(?:\s*:\s*|\s+)(.+)", re.IGNORECASE)
_READ_CHARS = 100 * MAX_CHARS
HOW = "Write search WORDS, or answer WORDS."


def opened(settings: Any, game: dict[str, Any]) -> Finder:
    """Return what a game is searched in.

    Raises:
        EnvError: the world, or the file of the collection, is not what it was.
    """
    if "world" in game:
        return collection_in(game).search
    if settings.url:
        return server_of(settings.url, settings.timeout_s).search
    if settings.corpus:
        return corpus_of(Path(settings.corpus).expanduser()).search
    return search_in(game["paragraphs"])


class SearchEnv(TextEnv):
    """One question at a time; a point for each gold fact once shown, and one for the answer."""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        game = accepted_json(task)
        self._find = opened(self._settings, game)
        self._top_k, self._result_chars = task.params["top_k"], task.params["result_chars"]
        self._budget: int | None = task.params.get("searches")
        self._question, self._golds = game["question"], tuple(game["golds"])
        self._facts = [GoldFact(*fact) for fact in game["facts"]]
        self._kind, self._plan = game.get("kind", ""), task.expert_plan
        self._seen: frozenset[int] = frozenset()
        self._searches = 0
        self._titles: tuple[str, ...] = ()
        return self.observe_message("You have not searched yet.")

    def clean_action(self, action: str) -> str:
        """Return the first line that is not blank, in any alphabet, at most 300 characters."""
        first = next((line for line in action[:_READ_CHARS].splitlines() if line.strip()), "")
        return " ".join(printable(first).split())[:MAX_CHARS].rstrip()

    def step_game(self, command: str) -> RawStep:
        match = _COMMAND.fullmatch(command)
        if not match:
            raise InvalidAction(f"That is neither a search nor an answer. {HOW}")
        return self._answer(match[2]) if match[1].lower() == "answer" else self._search(match[2])

    def _search(self, query: str) -> RawStep:
        if not words(query):
            raise InvalidAction(f"A search needs words. {HOW}")
        if self._left == 0:
            raise InvalidAction("No search is left. Write answer WORDS.")
        shown = cut(self._find(query, self._top_k), self._result_chars)
        self._searches += 1
        self._titles = tuple(document.title for document in shown)
        self._seen |= {number for number, fact in enumerate(self._facts) if shows(shown, fact)}
        lines = [f"Doc {number} ({title}): {' '.join(text)}" for number, (_, title, text) in enumerate(shown, 1)]
        message = "\n".join(["<information>", *(lines or ["Nothing was found."]), "</information>"])
        return RawStep(self.observe_message(message), len(self._seen), info=self._info())

    def _answer(self, answer: str) -> RawStep:
        if not normalised(answer):
            raise InvalidAction(f"An answer needs a word that is no article. {HOW}")
        won = exact_match(answer, self._golds)
        info = self._info() | {"em": float(won), "f1": f1(answer, self._golds)}
        seen = self.observe_message("The answer is right." if won else "The answer is wrong.")
        return RawStep(seen, len(self._seen) + won, won=won, lost=not won, info=info)

    def _info(self) -> dict[str, Any]:
        counts = {"facts": len(self._seen), "searches": self._searches}
        return counts | ({TASK_TYPE: self._kind} if self._kind else {})

    def observe_message(self, message: str) -> Observation:
        text = message if self._left is None else f"{message}\nSearches left: {self._left}"
        return replace(super().observe_message(text), gold=self._golds)

    def expert_actions(self) -> tuple[str, ...]:
        missing = next((number for number in range(len(self._facts)) if number not in self._seen), len(self._facts))
        return self._plan[missing:]

    @property
    def _left(self) -> int | None:
        """The searches that are left; None without a budget."""
        return None if self._budget is None else self._budget - self._searches

    def legal_actions(self) -> tuple[str, ...]:
        """Return searches for the question and for the titles shown last, which may be answers."""
        titles = dict.fromkeys(self._titles)
        listed = (f"search {self._question}", *(f"{verb} {title}" for title in titles for verb in ("search", "answer")))
        return tuple(command for command in listed if self._left != 0 or command.startswith("answer "))
