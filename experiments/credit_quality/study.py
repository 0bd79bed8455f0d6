"""The games of a study: choose them, and measure what is missing."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from omegaconf import DictConfig, OmegaConf

from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.envs.utils.bar import ticking_bar
from turngrid.envs.utils.names import file_name
from turngrid.experiments.credit_quality.game import MeasuredGame
from turngrid.experiments.credit_quality.worker import Job, Worker, do, start
from turngrid.experiments.evaluation.policies import PolicyRef
from turngrid.records.process.exit_codes import Failure, Refusal, say
from turngrid.records.run_folder import OUTPUT_KEYS
from turngrid.rollouts.prompt_forms.registry import non_default
from turngrid.tasks.evaluation_sets import evaluation_settings, prepare_evaluation_sets
from turngrid.tasks.splits import read_tasks

FOLDER = "credit_quality"
LOW, HIGH = 0.1, 0.9  # share of a suitable game's screening episodes that is won


@dataclass(frozen=True)
class Size:
    """Size of a study.

    Attributes:
        tasks: number of games.
        samples: episodes of each game.
        k: continuations of every prefix.
        screen: number of separate screening episodes. A game is taken if the share of them that is
            won is from ``LOW`` to ``HIGH``. 0 takes any game.
    """

    tasks: int
    samples: int
    k: int
    screen: int

    def takes(self, game: MeasuredGame) -> bool:
        won = [episode.won for episode in game.screened[: self.screen]]
        return not self.screen or (len(won) == self.screen and LOW <= sum(won) / len(won) <= HIGH)


def job_of(config: DictConfig, policy: PolicyRef, noise: float) -> Job:
    """Return the job; equal policies, games and settings have the same folder."""
    node: Any = OmegaConf.to_container(config, resolve=True)
    outside = {key.removeprefix("env.") for key in OUTPUT_KEYS}
    rollout = {key: node["actor_rollout_ref"]["rollout"][key] for key in ("temperature", "top_p", "top_k")}
    identity = {
        "version": make_environment(config.env.name, config.env).version,
        "env": {key: value for key, value in node["env"].items() if key not in outside},
        "reward": node["turn_reward"],
        "rollout": rollout,
        "lengths": [node["data"][key] for key in ("max_prompt_length", "max_response_length")],
        "prompt": non_default(node["prompt"]),
        "seed": node["seed"],
        "noise": noise,
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    name = file_name(f"{config.env.name}-{config.env.task}-{policy.name}-{digest}")
    folder = (Path(config.output_dir).expanduser() / FOLDER / name).absolute()
    yaml = OmegaConf.to_yaml(config, resolve=True)
    return Job(yaml, policy.kind, policy.path, policy.chat, noise, str(folder))


def games_of(config: DictConfig, folder: Path) -> Sequence[TaskRef]:
    """Return the test games, in their order."""
    prepare_evaluation_sets(config, folder, also_own=True)
    return read_tasks(Path(evaluation_settings(config, folder)[0].evaluation_set.file))


@dataclass(frozen=True)
class Measured:
    """The games that are rated (``taken``) and all that were screened (``seen``)."""

    taken: list[MeasuredGame]
    seen: list[MeasuredGame]


def measured(job: Job, games: Sequence[TaskRef], size: Size, processes: int) -> Measured:
    """Run the missing measurements and return all games.

    Raises:
        Refusal: too few games are of suitable difficulty, or the environment is not deterministic.
    """
    with _Workers(job, processes) as workers:
        tasks, seen = _screened(job, games, size, workers)
        unmeasured = [task for task in tasks if not job.read(task).known(size.samples, size.k)]
        if unmeasured:
            say(f"{len(unmeasured)} games x {size.samples} samples, {size.k} continuations of each prefix")
        with ticking_bar(total=len(tasks), initial=len(tasks) - len(unmeasured), desc="games", unit="game") as bar:
            for _ in workers.each("measure", unmeasured, size.samples, size.k):
                bar.update()
    return Measured([job.read(task) for task in tasks], [job.read(task) for task in seen])


def _screened(
    job: Job, games: Sequence[TaskRef], size: Size, workers: _Workers
) -> tuple[list[TaskRef], Sequence[TaskRef]]:
    """Return the first ``size.tasks`` suitable games, and all games that were screened for them."""
    step, taken = 2 * size.tasks if size.screen else size.tasks, []
    for first in range(0, len(games), step):
        part = games[first : first + step]
        unscreened = [task for task in part if len(job.read(task).screened) < size.screen]
        with ticking_bar(total=len(unscreened), desc="screening", unit="game", disable=not unscreened) as bar:
            for _ in workers.each("screen", unscreened, size.screen):
                bar.update()
        taken += [task for task in part if size.takes(job.read(task))]
        if len(taken) >= size.tasks:
            return taken[: size.tasks], games[: first + step]
    raise Refusal(
        f"tasks={size.tasks}: of {len(games)} games only {len(taken)} were won in {LOW:.0%} to {HIGH:.0%} of "
        f"{size.screen} other episodes; use a smaller tasks=, a larger eval.games=, or screen=0"
    )


class _Workers:
    """Processes that start when they are needed. If only one is asked for, this process does the
    work.
    """

    def __init__(self, job: Job, processes: int) -> None:
        self._job, self._processes = job, processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(wait=not kind, cancel_futures=True)
            for process in multiprocessing.active_children() if kind else []:
                process.terminate()  # a game takes minutes

    def each(self, what: str, tasks: Sequence[TaskRef], *numbers: int) -> Iterator[None]:
        """Run a method on each task; yield whenever a task is done."""
        if tasks and self._processes == 1:
            worker = Worker(self._job)
            for task in tasks:
                worker.do(what, task, *numbers)
                yield
        elif tasks:
            spawn = multiprocessing.get_context("spawn")
            self._pool = self._pool or ProcessPoolExecutor(self._processes, spawn, start, (self._job,))
            for future in as_completed([self._pool.submit(do, what, task.to_dict(), *numbers) for task in tasks]):
                try:
                    future.result()
                except BrokenProcessPool as error:
                    raise Failure("a process that played games was killed, perhaps for want of memory") from error
                yield
