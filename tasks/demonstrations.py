"""Demonstrations, written as ``Episode`` records like any other rollout.

They come from expert plans, or from the wins of another run (``turngrid.tasks.rejection``).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from turngrid.envs.hosting.pool import EnvPool, pool_of
from turngrid.envs.types import TaskRef
from turngrid.envs.utils.bar import ticking_bar
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.failed_episodes import run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ExpertPolicy
from turngrid.rollouts.store import write_episodes
from turngrid.tasks import rejection
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks, task_file


class ExpertLost(RuntimeError):
    """An accepted expert plan did not win, so the game on disk differs from the accepted one."""


def episodes_file(folder: Path) -> Path:
    return folder / "episodes" / "demonstrations.jsonl"


def make_demonstrations(run: Run, model: str) -> None:
    """Write the demonstrations that the run's ``demos`` node asks for.

    Args:
        model: path of the model that will learn from them.

    Raises:
        ExpertLost: an expert plan does not end in a win.
        DemosError: the other run has too few.
    """
    episodes = _from_run(run, model) if run.config.demos.source == "episodes" else _from_expert_plans(run)
    write_episodes(episodes_file(run.folder), episodes)


def _from_expert_plans(run: Run) -> list[Episode]:
    """Return one episode of each demonstration game, in order."""
    episodes = asyncio.run(_run_all(run, read_tasks(task_file(run.folder, "demonstrations"))))
    lost = [episode.task for episode in episodes if not episode.won]
    if lost:
        raise ExpertLost(f"{len(lost)} of {len(episodes)} expert plans did not win, first: {lost[0]}")
    return episodes


def _from_run(run: Run, model: str) -> list[Episode]:
    """Return wins of another run."""
    chosen = rejection.draw(run.config, run.allocation.demonstrations)
    return rejection.as_demonstrations(chosen, rejection.source(run.config), model, run.chat)


async def _run_all(run: Run, tasks: Sequence[TaskRef]) -> list[Episode]:
    with ticking_bar(total=len(tasks), desc="demonstrations", unit="game") as bar:
        async with pool_of(run.config.env, legal=run.prompt.admissible) as pool:
            return list(await asyncio.gather(*(_run(run, pool, task, bar) for task in tasks)))


async def _run(run: Run, pool: EnvPool, task: TaskRef, bar: tqdm) -> Episode:
    turns = max(int(run.config.env.max_turns), len(task.expert_plan))
    form = replace(run.prompt, train_thoughts=True)  # demonstrations teach thoughts
    spec = EpisodeSpec(task, run.environment.prompt, turns, run.reward, form=form)
    episode = await run_with_retries(pool.open, lambda session: run_episode(ExpertPolicy(), session, spec, None))
    bar.update()
    return episode
