"""Demonstrations, written as ``Episode`` records like any other rollout.

They come from expert plans, from the wins of another run (``turngrid.tasks.rejection``), or from
matches of a scripted policy against a random one.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from turngrid.envs.hosting.pool import pool_of
from turngrid.envs.types import TaskRef
from turngrid.envs.utils.bar import ticking_bar
from turngrid.records.process.exit_codes import Failure
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.failed_episodes import run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import EXACT, RANDOM, ExpertPolicy, Policy, RandomPolicy
from turngrid.rollouts.store import write_episodes
from turngrid.tasks import rejection
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks, task_file


def episodes_file(folder: Path) -> Path:
    return folder / "episodes" / "demonstrations.jsonl"


def make_demonstrations(run: Run, model: str) -> None:
    """Write the demonstrations that the run's ``demos`` node asks for.

    Args:
        model: path of the model that will learn from them.

    Raises:
        Failure: an expert plan does not win, so a game on disk differs from the accepted one.
        DemosError: the other run has too few.
    """
    if run.demos.source == "episodes":
        chosen = rejection.draw(run, run.allocation.demonstrations)
        episodes = rejection.as_demonstrations(chosen, rejection.source(run), model, run)
    else:
        episodes = _from_matches(run) if run.environment.seats else _from_expert_plans(run)
    write_episodes(episodes_file(run.folder), episodes)


def _from_expert_plans(run: Run) -> list[Episode]:
    """Return one episode of each demonstration game, in order."""
    episodes = asyncio.run(_run_all(run, ExpertPolicy(), [_spec(run, task) for task in _games(run)]))
    lost = [episode.task for episode in episodes if not episode.won]
    if lost:
        raise Failure(f"{len(lost)} of {len(episodes)} expert plans did not win, first: {lost[0]}")
    return episodes


def _from_matches(run: Run) -> list[Episode]:
    """Return ``demos.per_game`` episodes of each game, from one seat and the other in turn."""
    specs = [
        replace(_spec(run, task), sample=sample, seat=seat, opponent=RANDOM)
        for number, task in enumerate(_games(run))
        for sample in range(run.demos.per_game)
        for seat in [run.environment.seats[(number + sample) % 2]]
    ]
    player = EXACT if run.demos.source == "expert" else RANDOM
    count, seed = run.allocation.demonstrations, run.seed
    return asyncio.run(_run_all(run, RandomPolicy(seed, player), specs[:count]))


def _games(run: Run) -> Sequence[TaskRef]:
    return read_tasks(task_file(run.folder, "demonstrations"))


def _spec(run: Run, task: TaskRef) -> EpisodeSpec:
    turns = max(run.max_turns, len(task.expert_plan))
    form = replace(run.prompt, train_thoughts=True)  # demonstrations teach thoughts
    return EpisodeSpec(task, run.environment.prompt, turns, run.reward, form=form)


async def _run_all(run: Run, policy: Policy, specs: Sequence[EpisodeSpec]) -> list[Episode]:
    async def one(spec: EpisodeSpec) -> Episode:
        episode = await run_with_retries(
            pool.open, lambda session: run_episode(policy, session, spec, None, None, run.seed)
        )
        bar.update()
        return episode

    with ticking_bar(total=len(specs), desc="demonstrations", unit="game") as bar:
        async with pool_of(run.config.env, legal=run.prompt.admissible) as pool:
            return list(await asyncio.gather(*map(one, specs)))
