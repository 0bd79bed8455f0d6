"""Mixtures, curricula, filters and batches of few games, in verl's trainer: choose a step's games.

verl 0.9.1 has no hook for another sampler. But it reads rows from its data loader and saves the
loader's state in each checkpoint, so ours replaces the loader.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from omegaconf import DictConfig
from verl.utils.dataset.rl_dataset import collate_fn

from turngrid.algorithms.chosen import Scheduled, slots_of
from turngrid.rollouts.episode import Episode
from turngrid.tasks.curriculum import Draws, Thresholded, curriculum, turns_at
from turngrid.tasks.mixture import task_of, task_weights
from turngrid.verl_plugin.dataset import TaskDataset


class GameLoader:
    """Endless loader of ``rows`` prompts in the order of ``draws``; it has a state to save."""

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
    """Chooses the games of each step by task and curriculum; a filter may leave some out."""

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self.draws: Draws | None = None
        self._mixed = False
        filters = slots_of(config, ["filter"])["filter"].items()
        chosen = {name: Scheduled("filter", name, settings or {}) for name, settings in filters}
        self._leaving_out = {name: one for name, one in chosen.items() if getattr(one.cls, "leaves_out", False)}

    def loader(self, dataset: TaskDataset) -> GameLoader | None:
        """Return the loader that replaces verl's, or None if verl orders the games.

        verl's has no batch if there are fewer games than a batch has prompts.
        """
        data, self._mixed = self._config.data, bool(self._config.env.tasks)
        rows = data.get("gen_batch_size") or data.train_batch_size
        if not self._mixed and not self._leaving_out and len(dataset) >= rows:
            return None
        self.draws = draws(dataset, self._config)
        keys = (f"{task['env']}/{task['task']}/{task['seed']}" for task in dataset.tasks)  # as ``TaskRef.key``
        self._games = {key: number for number, key in enumerate(keys)}
        return GameLoader(dataset, self.draws, rows)

    def begin(self, step: int) -> None:
        if self.draws:
            self.draws.begin(step)

    def metrics(self, step: int, episodes: Iterable[Episode]) -> dict[str, float]:
        """Report results to curriculum and draws; return metrics of tasks and of both."""
        episodes = list(episodes)
        tasks = by_task(episodes) if self._mixed else {}
        metrics = task_metrics(tasks, self._config.turn_reward.name) | self._progress(step, tasks)
        return metrics | self._left_out(step, episodes)

    def _left_out(self, step: int, episodes: Iterable[Episode]) -> dict[str, float]:
        if not self._leaving_out or not self.draws:
            return {}
        ((name, method),) = self._leaving_out.items()
        solved: dict[int, list[bool]] = defaultdict(list)
        for episode in episodes:
            if episode.whole:
                reward = sum(turn.trained(self._config.turn_reward.name) for turn in episode.turns)
                solved[self._games[episode.task]].append(reward > 0)
        shares = {game: sum(own) / len(own) for game, own in solved.items()}
        self.draws.observe(shares, method.at(step).share)
        return {f"filter/{name}/left_out": float(len(self.draws.left))}

    def _progress(self, step: int, tasks: Mapping[str, Sequence[Episode]]) -> dict[str, float]:
        node = self._config.curriculum
        if node.name == "none":
            return {}
        metrics = {"curriculum/max_turns": float(turns_at(node.horizon, step, self._config.env.max_turns))}
        if self.draws and self._mixed:
            order = self.draws.curriculum
            metrics["curriculum/stage"] = float(order.phase(step).number)
            wins = {task: [episode.won for episode in episodes if episode.whole] for task, episodes in tasks.items()}
            order.observe(step, {task: (sum(won), len(won)) for task, won in wins.items()})
            if isinstance(order, Thresholded):
                metrics["curriculum/success"] = order.success
        return metrics


def draws(dataset: TaskDataset, config: DictConfig) -> Draws:
    games: dict[str, list[int]] = {task: [] for task in task_weights(config.env)}
    for number, task in enumerate(dataset.tasks):
        games[task["task"] if config.env.tasks else str(config.env.task)].append(number)
    order = curriculum(config.curriculum, list(games))
    return Draws(games, config.data.train_batch_size, order, config.seed)


def by_task(episodes: Iterable[Episode]) -> dict[str, list[Episode]]:
    groups: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        groups[task_of(episode.task)].append(episode)
    return dict(sorted(groups.items()))


def task_metrics(tasks: Mapping[str, Sequence[Episode]], reward: str) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for task, episodes in tasks.items():
        rewards = [turn.trained(reward) for episode in episodes for turn in episode.turns]
        if whole := [episode for episode in episodes if episode.whole]:
            metrics[f"success/by_task/{task}"] = sum(episode.won for episode in whole) / len(whole)
        metrics[f"reward/by_task/{task}"] = sum(rewards) / len(episodes)
        metrics[f"rollout/turns_by_task/{task}"] = sum(len(episode.turns) for episode in episodes) / len(episodes)
        metrics[f"rollout/episodes_by_task/{task}"] = float(len(episodes))
    return metrics
