"""Mixtures and curricula in verl's trainer: choose the games of each step, and log their results.

verl 0.9.1 has no hook for another sampler. But it reads rows from its data loader and saves the
loader's state in each checkpoint, so ours replaces the loader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from omegaconf import DictConfig
from verl.utils.dataset.rl_dataset import collate_fn

from turngrid.rollouts.episode import Episode
from turngrid.tasks.curriculum import Draws, Thresholded, curriculum, turns_at
from turngrid.tasks.mixture import task_of, task_weights
from turngrid.verl_plugin.dataset import TaskDataset


class GameLoader:
    """Endless loader of ``rows`` prompts at a time, in the order of ``draws``; it has a state to
    save.
    """

    def __init__(self, dataset: TaskDataset, draws: Draws, rows: int = 1) -> None:
        self._dataset, self.draws, self._rows = dataset, draws, rows

    def __len__(self) -> int:
        return len(self._dataset) // self._rows

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        return collate_fn([self._dataset[self.draws.next()] for _ in range(self._rows)])

    def state_dict(self) -> dict[str, Any]:
        return self.draws.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.draws.load(state)


class Games:
    """Chooses the games of each step by task and curriculum. If there is one task, verl orders its
    games.
    """

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self.draws: Draws | None = None

    def loader(self, dataset: TaskDataset) -> GameLoader | None:
        """Return the loader that replaces verl's, or None if the run has one task."""
        if not self._config.env.tasks:
            return None
        self.draws = draws(dataset, self._config)
        return GameLoader(
            dataset, self.draws, self._config.data.get("gen_batch_size") or self._config.data.train_batch_size
        )

    def begin(self, step: int) -> None:
        """Prepare the draws of a step."""
        if self.draws:
            self.draws.begin(step)

    def metrics(self, step: int, episodes: Iterable[Episode]) -> dict[str, float]:
        """Return metrics of tasks and curriculum; also pass the results to the curriculum."""
        tasks = by_task(episodes) if self.draws else {}
        return task_metrics(tasks, self._config.turn_reward.name) | self._progress(step, tasks)

    def _progress(self, step: int, tasks: Mapping[str, Sequence[Episode]]) -> dict[str, float]:
        node = self._config.curriculum
        if node.name == "none":
            return {}
        metrics = {"curriculum/max_turns": float(turns_at(node.horizon, step, self._config.env.max_turns))}
        if self.draws:
            order = self.draws.curriculum
            metrics["curriculum/stage"] = float(order.phase(step).number)
            wins = {task: [episode.won for episode in episodes if episode.whole] for task, episodes in tasks.items()}
            order.observe(step, {task: (sum(won), len(won)) for task, won in wins.items()})
            if isinstance(order, Thresholded):
                metrics["curriculum/success"] = order.success
        return metrics


def draws(dataset: TaskDataset, config: DictConfig) -> Draws:
    """Return the order of the data set's games under this config."""
    games: dict[str, list[int]] = {task: [] for task in task_weights(config.env)}
    for number, task in enumerate(dataset.tasks):
        games[task["task"]].append(number)
    order = curriculum(config.curriculum, list(games))
    return Draws(games, config.data.train_batch_size, order, config.seed)


def by_task(episodes: Iterable[Episode]) -> dict[str, list[Episode]]:
    """Group episodes by task, in the order of the tasks' names."""
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[task_of(episode.task)].append(episode)
    return dict(sorted(groups.items()))


def task_metrics(tasks: Mapping[str, Sequence[Episode]], reward: str) -> dict[str, float]:
    """Return success, reward, turns an episode and number of episodes, for each task."""
    metrics: dict[str, float] = {}
    for task, episodes in tasks.items():
        rewards = [turn.trained(reward) for episode in episodes for turn in episode.turns]
        if whole := [episode for episode in episodes if episode.whole]:
            metrics[f"success/by_task/{task}"] = sum(episode.won for episode in whole) / len(whole)
        metrics[f"reward/by_task/{task}"] = sum(rewards) / len(episodes)
        metrics[f"rollout/turns_by_task/{task}"] = sum(len(episode.turns) for episode in episodes) / len(episodes)
        metrics[f"rollout/episodes_by_task/{task}"] = float(len(episodes))
    return metrics
