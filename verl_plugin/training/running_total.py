"""What a run has spent up to a step, counted as ``experiments.stages.ledger`` charges it once the run has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from omegaconf import DictConfig

from records.metrics import read_metrics
from tasks.budget import demonstration_price
from tasks.demonstrations import episodes_file


class _Turn(msgspec.Struct):
    action_ids: list[int]
    shared: bool = False


class _Played(msgspec.Struct):
    """Of an episode, what a charge needs; the rest of its line is skipped, not parsed."""

    task: str
    turns: list[_Turn]


class RunningTotal:
    """Begins with the demonstrations and whatever steps lie in the run folder, so that a resumed run counts on."""

    def __init__(self, config: DictConfig, folder: Path) -> None:
        self._budget = config.budget
        self._games: set[str] = set()
        self.episodes, self.tokens = 0, 0
        self.demonstrations = _lines(episodes_file(folder))
        for step in sorted((folder / "rl" / "episodes").glob("*.jsonl")):
            self.add(step)
        self._lost_games = 0
        self._count_lost(list(read_metrics(folder / "rl" / "metrics.jsonl")))

    def _count_lost(self, logged: Sequence[Mapping[str, Any]]) -> None:
        """Episodes that are no longer on record were counted when they were."""
        last: Mapping[str, Any] = next((line for line in reversed(logged) if "budget/episodes" in line), {})
        self.episodes = max(self.episodes, int(last.get("budget/episodes", 0)))
        self.tokens = max(self.tokens, int(last.get("budget/tokens", 0)))
        self._lost_games = max(0, int(last.get("budget/games", 0)) - len(self._games))

    def add(self, step: Path) -> None:
        """One step's file of episodes."""
        decoder = msgspec.json.Decoder(_Played)
        with step.open("rb") as file:
            for episode in map(decoder.decode, file):
                self._games.add(episode.task)
                self.episodes += 1
                self.tokens += sum(len(turn.action_ids) for turn in episode.turns if not turn.shared)

    def metrics(self) -> dict[str, float]:
        """``units``: demonstrations and RL as the budget charges them; the others count RL alone, ``tokens`` those that the
        model sampled."""
        games = len(self._games) + self._lost_games
        charged = games if self._budget.count == "games" else self.episodes
        units = float(self.demonstrations * demonstration_price(self._budget)) + charged * self._budget.episode_cost
        return {
            "budget/units": float(units),
            "budget/episodes": float(self.episodes),
            "budget/games": float(games),
            "budget/tokens": float(self.tokens),
        }


def _lines(path: Path) -> int:
    return sum(1 for _ in path.open("rb")) if path.exists() else 0
