"""All games of a study: which they are, and what is left to be measured of them."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from omegaconf import DictConfig, OmegaConf

from envs.registry import make_environment
from envs.types import TaskRef
from envs.utils.bar import ticking_bar
from envs.utils.names import file_name
from experiments.credit_quality.measured_game import MeasuredGame
from experiments.credit_quality.worker import Job, Worker, do, start
from experiments.evaluation.policies import PolicyRef
from records.process.exit_codes import Failure, Refusal, say
from records.run_folder import OUTPUT_KEYS
from rollouts.prompt_forms.registry import non_default
from tasks.evaluation_sets import evaluation_settings, prepare_evaluation_sets
from tasks.splits import read_tasks

PLACE = "credit_quality"
CALIBRATION = 2  # games that say what the others will take


@dataclass(frozen=True)
class Size:
    """How much is measured: ``tasks`` games with ``samples`` episodes each, and ``k`` continuations of every prefix.

    A game is taken if of ``screen`` other episodes a share within ``low`` and ``high`` is won; ``screen=0`` takes the first games.
    """

    tasks: int
    samples: int
    k: int
    screen: int
    low: float = 0.1
    high: float = 0.9

    def takes(self, game: MeasuredGame) -> bool:
        won = [episode.won for episode in game.screened[: self.screen]]
        return not self.screen or (len(won) == self.screen and self.low <= sum(won) / len(won) <= self.high)


def job_of(config: DictConfig, policy: PolicyRef, noise: float) -> Job:
    """The same policy, playing the same games in the same way, has the same folder; how much of it is no part of its name."""
    node: Any = OmegaConf.to_container(config, resolve=True)
    outside = {key.removeprefix("env.") for key in OUTPUT_KEYS}
    rollout = {key: node["actor_rollout_ref"]["rollout"][key] for key in ("temperature", "top_p", "top_k")}
    what = {
        "version": make_environment(config.env.name, config.env).version,
        "env": {key: value for key, value in node["env"].items() if key not in outside},
        "reward": node["turn_reward"],
        "rollout": rollout,
        "lengths": [node["data"][key] for key in ("max_prompt_length", "max_response_length")],
        "prompt": non_default(node["prompt"]),
        "seed": node["seed"],
        "noise": noise,
    }
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:8]
    name = file_name(f"{config.env.name}-{config.env.task}-{policy.name}-{digest}")
    folder = (Path(config.output_dir).expanduser() / PLACE / name).absolute()
    yaml = OmegaConf.to_yaml(config, resolve=True)
    return Job(yaml, policy.kind, policy.path, policy.chat, noise, str(folder))


def games_of(config: DictConfig, folder: Path) -> Sequence[TaskRef]:
    """The test games, in their order."""
    prepare_evaluation_sets(config, folder, also_own=True)
    return read_tasks(Path(evaluation_settings(config, folder)[0].evaluation_set.file))


@dataclass(frozen=True)
class Measured:
    """``taken``: the games that are rated, in their order, so that which they are depends on no clock; ``seen``: all that were screened."""

    taken: list[MeasuredGame]
    seen: list[MeasuredGame]


def measured(
    job: Job,
    games: Sequence[TaskRef],
    size: Size,
    processes: int,
    told: Callable[[Sequence[MeasuredGame]], str],
) -> Measured:
    """Args:
        told: what the progress bar says of the games that are done.

    Raises:
        Refusal: too few games are neither too hard nor too easy; the environment does not replay exactly.
    """
    with _Pool(job, processes) as pool:
        tasks, seen = _screened(job, games, size, pool)
        left = [task for task in tasks if not job.read(task).known(size.samples, size.k)]
        done = [job.read(task) for task in tasks if task not in left]
        if left:
            say(expected([job.read(task) for task in seen], len(left), size))
        with ticking_bar(total=len(tasks), initial=len(done), desc="games", unit="game") as bar:
            bar.set_postfix_str(told(done))
            for number, task in enumerate(pool.each("measure", left, size.samples, size.k), 1):
                done.append(job.read(task))
                bar.update()
                bar.set_postfix_str(told(done))
                if number == CALIBRATION < len(left):
                    bar.write(
                        calibrated(done[-CALIBRATION:], len(left) - CALIBRATION, size, processes), file=sys.stderr
                    )
    return Measured([job.read(task) for task in tasks], [job.read(task) for task in seen])


def _screened(job: Job, games: Sequence[TaskRef], size: Size, pool: _Pool) -> tuple[list[TaskRef], Sequence[TaskRef]]:
    """The first games that the size takes, and those that were looked at for it."""
    step, taken = 2 * size.tasks if size.screen else size.tasks, []
    for first in range(0, len(games), step):
        part = games[first : first + step]
        left = [task for task in part if len(job.read(task).screened) < size.screen]
        with ticking_bar(total=len(left), desc="screening", unit="game", disable=not left) as bar:
            for _ in pool.each("screen", left, size.screen):
                bar.update()
        taken += [task for task in part if size.takes(job.read(task))]
        if len(taken) >= size.tasks:
            return taken[: size.tasks], games[: first + step]
    raise Refusal(
        f"tasks={size.tasks}: of {len(games)} games only {len(taken)} were won in {size.low:.0%} to {size.high:.0%} of "
        f"{size.screen} other episodes; ask for fewer, for more games with eval.games=, or take any with screen=0"
    )


def expected(seen: Sequence[MeasuredGame], left: int, size: Size) -> str:
    """The plan before anything is measured, from the screening episodes."""
    turns = [len(episode.turns) for game in seen for episode in game.screened]
    asked = f"plan: {left} games x {size.samples} samples, {size.k} continuations of each prefix"
    if not turns:
        return asked
    most = round(left * size.samples * sum(turns) / len(turns))
    return f"{asked}: at most {most:,} prefixes and {most * size.k:,} continuations (what samples share counts once)"


def calibrated(done: Sequence[MeasuredGame], left: int, size: Size, processes: int) -> str:
    """The plan once some games are done."""
    prefixes = left * sum(len(game.values) for game in done) / len(done)
    seconds = left * sum(game.seconds for game in done) / len(done)
    return (
        f"plan: {left} games more, about {prefixes:,.0f} prefixes and {prefixes * size.k:,.0f} continuations: "
        f"{seconds:,.0f} s of CPU, {seconds / processes / 60:.1f} minutes of {processes} processes"
    )


class _Pool:
    """Processes that are started when there is something to do, and end with this one; a single one is this process itself."""

    def __init__(self, job: Job, processes: int) -> None:
        self._job, self._processes = job, processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool:
            running = list(self._pool._processes.values()) if kind else []
            self._pool.shutdown(wait=not kind, cancel_futures=True)
            for process in running:
                process.terminate()

    def each(self, what: str, tasks: Sequence[TaskRef], *numbers: int) -> Iterator[TaskRef]:
        """The tasks as they are done."""
        if tasks:
            yield from (self._one_by_one if self._processes == 1 else self._together)(what, tasks, *numbers)

    def _one_by_one(self, what: str, tasks: Sequence[TaskRef], *numbers: int) -> Iterator[TaskRef]:
        worker = Worker(self._job)
        for task in tasks:
            worker.do(what, task, *numbers)
            yield task

    def _together(self, what: str, tasks: Sequence[TaskRef], *numbers: int) -> Iterator[TaskRef]:
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, spawn, initializer=start, initargs=(self._job,))
        left: dict[Future[None], TaskRef] = {
            self._pool.submit(do, what, task.to_dict(), *numbers): task for task in tasks
        }
        while left:
            done, _ = wait(left, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    future.result()
                except BrokenProcessPool as error:
                    raise Failure("a process that played games was killed, for want of memory perhaps") from error
                yield left.pop(future)
