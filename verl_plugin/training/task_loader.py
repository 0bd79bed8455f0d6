"""Mixtures and curricula in verl's trainer: which games it is handed, and what it logs of them.

verl 0.9.1 has no hook for a sampler of one's own, but it asks its data loader for rows and keeps the loader's state in
each checkpoint: ours stands in its place. A run of one task without a curriculum has none of this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Self

from omegaconf import DictConfig
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.utils.dataset.rl_dataset import collate_fn

from rollouts.episode import Episode
from rollouts.store import read_episodes
from tasks.curriculum import Draws, Thresholded, curriculum, turns_at
from tasks.mixture import task_of, task_weights
from verl_plugin.dataset import TaskDataset
from verl_plugin.training.trainer import StepRecords, TurngridTrainer


class GameLoader:
    """What verl sees of ``Draws``: an endless loader of ``rows`` prompts at a time, with a state."""

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


class GamesByTask(StepRecords):
    """Mixed into our trainer: games by task and step."""

    draws: Draws | None = None

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        if self.config.env.tasks:
            self.draws = draws(self.train_dataset, self.config)
            rows = self.config.data.get("gen_batch_size") or self.config.data.train_batch_size
            self.train_dataloader = GameLoader(self.train_dataset, self.draws, rows)

    def on_train_begin(self) -> None:
        if self.draws:  # an asynchronous trainer hands out prompts here already
            self.draws.begin(self.global_steps)
        super().on_train_begin()

    def on_step_begin(self) -> None:
        if self.draws:
            self.draws.begin(self.global_steps)
        super().on_step_begin()

    def gather_episodes(self) -> dict[str, float]:
        path = self._step_folder().with_suffix(".jsonl")
        metrics = super().gather_episodes()
        episodes = by_task(read_episodes(path)) if self.draws else {}
        return metrics | task_metrics(episodes, self.config.turn_reward.name) | self._progress(episodes)

    def _progress(self, episodes: Mapping[str, Sequence[Episode]]) -> dict[str, float]:
        """Where the curriculum stood in this step; it learns of the step's results here, before the checkpoint."""
        node, step = self.config.curriculum, self.global_steps
        if node.name == "none":
            return {}
        metrics = {"curriculum/max_turns": float(turns_at(node.horizon, step, self.config.env.max_turns))}
        if self.draws:
            order = self.draws.curriculum
            metrics["curriculum/stage"] = float(order.phase(step).number)
            whole = {task: [episode.won for episode in played if episode.whole] for task, played in episodes.items()}
            order.observe(step, {task: (sum(won), len(won)) for task, won in whole.items()})
            if isinstance(order, Thresholded):
                metrics["curriculum/success"] = order.success
        return metrics


class CurriculumTrainer(GamesByTask, TurngridTrainer):
    """For ``trainer.v1.trainer_mode=sync``."""


def draws(dataset: TaskDataset, config: DictConfig) -> Draws:
    """The order of the data set's games under this config."""
    games: dict[str, list[int]] = {task: [] for task in task_weights(config.env)}
    for number, task in enumerate(dataset.tasks):
        games[task["task"]].append(number)
    order = curriculum(config.curriculum, list(games))
    return Draws(games, config.data.train_batch_size, order, config.seed)


def by_task(episodes: Any) -> dict[str, list[Episode]]:
    """In the order of the tasks' names."""
    found: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        found[task_of(episode.task)].append(episode)
    return dict(sorted(found.items()))


def task_metrics(episodes: Mapping[str, Sequence[Episode]], reward: str) -> dict[str, float]:
    """One family a quantity, one line a task: share won, reward and turns an episode, episodes."""
    metrics: dict[str, float] = {}
    for task, played in episodes.items():
        rewards = [turn.trained(reward) for episode in played for turn in episode.turns]
        if whole := [episode for episode in played if episode.whole]:
            metrics[f"success/by_task/{task}"] = sum(episode.won for episode in whole) / len(whole)
        metrics[f"reward/by_task/{task}"] = sum(rewards) / len(played)
        metrics[f"rollout/turns_by_task/{task}"] = sum(len(episode.turns) for episode in played) / len(played)
        metrics[f"rollout/episodes_by_task/{task}"] = float(len(played))
    return metrics


def install(config: DictConfig) -> None:
    """Take the place of our trainer where the config has tasks to mix or a curriculum."""
    if config.env.tasks or config.curriculum.name != "none":
        mode = config.trainer.v1.trainer_mode
        usual = TRAINER_REGISTRY[mode]
        of_mode = type("CurriculumTrainer", (GamesByTask, usual), {})
        TRAINER_REGISTRY[mode] = CurriculumTrainer if mode == "sync" else of_mode
