"""Check an environment before training in it.

    python -m experiments.check_env ENV [KEY=VALUE ...]
    python -m experiments.check_env textworld env.task=w2-o3-q4 games=8

ENV         an environment's name, as for env=, or module:Class
games=8     games of each split; those of test are played
turns=30    turns of a random episode at most
KEY=VALUE   as for `python -m train`: env.task=, env.data_dir=, reward=, ...

Prints a table, which docs/env.md explains. The exit code is 1 if a line says FAIL."""

import asyncio
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.experiments.check_env import checks
from turngrid.experiments.check_env.checks import CHECKS, FAIL, Finding
from turngrid.experiments.check_env.rollouts import memory_growth, openings, rollouts
from turngrid.experiments.evaluate import composed
from turngrid.records.process.exit_codes import Refusal, command, own_words
from turngrid.tasks.evaluation_sets import reward_on
from turngrid.tasks.run import Run

SPLITS = ("test", "validation", "demonstrations", "train")


@dataclass
class Options:
    """The options of this command."""

    games: int = 8
    turns: int = 30


@command(__doc__, resumes=False)
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options, Refusal)
    if len(words) != 1:
        raise Refusal("python -m experiments.check_env ENV [KEY=VALUE ...] takes one environment")
    run = Run(composed([], [f"env{'.name' * (':' in words[0])}={words[0]}", *overrides]), Path())
    found = check(run, options)
    Console().print(table(words[0], found))
    return int(any(finding.verdict == FAIL for finding in found))


def check(run: Run, options: Options) -> list[Finding]:
    """List and play an environment's games, and return what was found."""
    return asyncio.run(_check(run, options))


async def _check(run: Run, options: Options) -> list[Finding]:
    catalogue, env = Catalogue(run.environment, run.config.env.cache_dir), run.config.env
    reward = reward_on(run.environment, run.config)
    # one split at a time: a run's listing would leave out the games that two splits share
    listed = {split: catalogue.tasks(env.task, split, options.games, reward, at_most=[split]) for split in SPLITS}
    async with EnvPool(env.name, 1, env.step_deadline_s, settings=env, legal=True) as pool:
        opened = await openings(pool, [task for tasks in listed.values() for task in tasks])
        games = await rollouts(pool, listed["test"], options.turns)
        found = [checks.splits(listed, opened), *(one(run.environment, games) for one in CHECKS)]
        return [*found, checks.memory(await memory_growth(pool, listed["test"][0]))]


def table(name: str, found: Iterable[Finding]) -> Table:
    made = Table("check", "", "what was seen", title=f"env={name}", title_justify="left")
    for finding in found:
        made.add_row(finding.check, finding.verdict, finding.seen)
    return made


if __name__ == "__main__":
    sys.exit(main())
