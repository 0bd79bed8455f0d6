"""Seeds of each task that make a game, reasons of the others, and wins of the expert.

    python -m benchmarks.experts ENV [TASK ...] [--split test] [--seeds 4]
    python -m benchmarks.experts scienceworld           # the table of docs/scienceworld.md

Games are made, and cached, as for a run. Their expert plans are then played in other processes.
Without TASK, all tasks that the environment names are tried.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from turngrid.envs.environment import Environment
from turngrid.envs.games.catalogue import SPLITS, Catalogue, TooFewGames
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import EnvError, TaskRef

DEADLINE_S = 300.0
HEAD = (
    "| task | seeds | games | expert won | expert's actions: mean, at most | `env.max_turns` alone |\n"
    + "|---" * 6
    + "|"
)


def limited(environment: Environment, count: int) -> Environment:
    """Let an environment have ``count`` seeds of each split."""
    every = environment.seeds
    environment.seeds = lambda params, split: (every(params, split) or SPLITS[split])[:count]  # type: ignore[method-assign]
    return environment


async def wins(name: str, tasks: Sequence[TaskRef], lost: Counter[str]) -> int:
    """Play expert plans; count the reasons of those that do not win in ``lost``."""
    won = 0
    async with EnvPool(name, 1, DEADLINE_S) as pool:
        session = await pool.open()
        for task in tasks:
            try:
                await session.reset(task, 0)
                results = [await session.step(action) for action in task.expert_plan]
            except EnvError as error:
                lost[str(error)] += 1
                continue
            won += results[-1].won
            lost["the plan ends without a win"] += not results[-1].won
    return won


def row(catalogue: Catalogue, environment: Environment, task: str, split: str, seeds: int) -> str:
    lost: Counter[str] = Counter()
    try:
        listing = catalogue.listings(task, {split: seeds}, at_most=[split])[split]
    except TooFewGames as error:
        return f"| `{task}` | {seeds} | 0 | | | {environment.max_turns(task)} |\n{error}"
    lost.update(reason for _, reason in listing.rejected)
    games, tried = listing.tasks, len(listing.tasks) + len(listing.rejected)
    won = asyncio.run(wins(environment.name, games, lost))
    lengths = [len(game.expert_plan) for game in games]
    shown = f"{fmean(lengths):.1f}, {max(lengths)}"
    table = f"| `{task}` | {tried} | {len(games)} | {won} | {shown} | {environment.max_turns(task)} |"
    return "\n".join([table, *(f"{count} x {reason}" for reason, count in (+lost).items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--split", default="test", choices=SPLITS)
    parser.add_argument("--seeds", type=int, default=4)
    args = parser.parse_args()
    environment = limited(make_environment(args.env), args.seeds)
    catalogue = Catalogue(environment)
    print(HEAD, flush=True)
    for task in args.tasks or environment.examples:
        print(row(catalogue, environment, task, args.split, args.seeds), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
