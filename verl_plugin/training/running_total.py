"""The budget spent so far, counted as ``turngrid.experiments.stages.ledger`` charges it at
the end.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from turngrid.rollouts.store import read_episodes
from turngrid.tasks.budget import demonstration_price
from turngrid.tasks.demonstrations import episodes_file


class RunningTotal:
    """Starts with what is in the run folder, so that a resumed run continues the count."""

    def __init__(self, config: DictConfig, folder: Path) -> None:
        self._budget = config.budget
        self._games: set[str] = set()
        self.episodes = self.tokens = 0
        demonstrations = episodes_file(folder)
        self.demonstrations = sum(1 for _ in demonstrations.open("rb")) if demonstrations.exists() else 0
        for step in sorted((folder / "rl" / "episodes").glob("*.jsonl")):
            self.add(step)

    def add(self, step: Path) -> None:
        """Add one step's file of episodes."""
        for episode in read_episodes(step):
            self._games.add(episode.task)
            self.episodes += 1
            self.tokens += sum(len(turn.action_ids) for turn in episode.own_turns)

    def metrics(self) -> dict[str, float]:
        """Return units of demonstrations and RL, and the episodes, games and tokens of RL alone."""
        games = len(self._games)
        charged = games if self._budget.count == "games" else self.episodes
        units = float(self.demonstrations * demonstration_price(self._budget)) + charged * self._budget.episode_cost
        return {
            "budget/units": float(units),
            "budget/episodes": float(self.episodes),
            "budget/games": float(games),
            "budget/tokens": float(self.tokens),
        }
