"""Episodes among faults: workers that are killed, workers that hang, and texts that no game
expects.

    python -m benchmarks.faults [--episodes 10000] [--workers 2] [--at-once 16] [--seed 0] [--out
    FILE.json]

Scripted policies (half follow the expert's plan, half draw from the commands of all the games) play
textworld, alfworld and repo_repair through the pool and the loop of ``rollouts``, with its retries.
In 1 % of the episodes a worker process gets SIGKILL, in 0.5 % SIGSTOP (it hangs until its deadline
ends it); 5 % of the actions are hostile texts. The records are written and read again, and checked:
no episode lost or counted twice, none with another's text, every 50th played again from its record
and compared. Exit status 1 where one of these does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import fault_checks as checks
from benchmarks.fault_policies import Key, Saboteur, ScriptedPolicy, StruckSession, draw_faults
from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import TaskRef
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.failed_episodes import EpisodeFailed, failed_episode, run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, Session, run_episode
from turngrid.rollouts.store import read_episodes, write_episodes

SHOWN = 5
# What the random policy says besides the commands of all the games' expert plans.
PHRASES = ("look", "inventory", "go north", "examine me", "ls", "search def", "test", "submit")


@dataclass(frozen=True)
class Part:
    """One environment's share of the episodes: grading takes seconds, a step a millisecond."""

    environment: str
    task: str
    share: float
    games: int
    step_deadline_s: float


PARTS = (
    Part("textworld", "w2-o3-q4", 0.6, 24, 5.0),
    Part("alfworld", "all_types", 0.36, 24, 5.0),
    Part("repo_repair", "lines-easy", 0.04, 12, 60.0),
)


@dataclass(frozen=True)
class Rates:
    """Shares of the episodes with faults and replays, and of the actions that are hostile texts."""

    deaths: float = 0.01
    hangs: float = 0.005
    hostile: float = 0.05
    replay_every: int = 50


@dataclass
class Played:
    """Results of one environment: its records as read back from disk, and the violations found."""

    environment: str
    episodes: list[Episode]
    injected: Counter[str]
    hostile: int
    seconds: float
    replayed: int = 0
    violations: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        again = [episode.retries for episode in self.episodes]
        return {
            "episodes": len(self.episodes),
            "turns": sum(len(episode.turns) for episode in self.episodes),
            "won": sum(episode.won for episode in self.episodes),
            "seconds": round(self.seconds, 1),
            "episodes/s": round(len(self.episodes) / self.seconds, 1),
            "kills": self.injected["kill"],
            "hangs": self.injected["hang"],
            "hostile actions": self.hostile,
            "played again by the loop": sum(map(bool, again)),
            "replayed and equal": self.replayed,
            "violations": len(self.violations),
        }


def specs_of(name: str, tasks: list[TaskRef], count: int) -> list[EpisodeSpec]:
    """Return ``count`` episodes over these games, each another sample of its game."""
    environment = registry.make_environment(name)
    turns = max(len(task.expert_plan) for task in tasks) + 4
    return [
        EpisodeSpec(
            tasks[number % len(tasks)],
            environment.prompt,
            turns,
            reward(environment.rewards[0]) if environment.rewards else None,
            sample=number // len(tasks),
            grade_unfinished=environment.grades_unfinished,
        )
        for number in range(count)
    ]


async def play(
    pool: EnvPool, specs: list[EpisodeSpec], rates: Rates, *, at_once: int, seed: int, done: Callable[[], object]
) -> tuple[list[Episode], Saboteur, checks.Said, int]:
    """Run every episode through the pool, with retries and faults.

    Returns records, faults, and what the policies saw and answered.
    """
    phrases = sorted({*PHRASES, *(command for spec in specs for command in spec.task.expert_plan)})
    policies = [ScriptedPolicy(kind, phrases, rates.hostile) for kind in ("expert", "random")]
    saboteur = Saboteur(pool, draw_faults([key_of(spec) for spec in specs], rates.deaths, rates.hangs, seed), seed)
    gate = asyncio.Semaphore(at_once)

    async def one(number: int, spec: EpisodeSpec) -> Episode:
        policy = policies[number % 2]

        async def opened() -> Session:
            return StruckSession(await pool.open(), saboteur, key_of(spec))

        async def played(session: Session) -> Episode:
            return await run_episode(policy, session, spec, None)

        async with gate:
            try:
                return await run_with_retries(opened, played)
            except EpisodeFailed as error:
                return failed_episode(spec, policy.name, error)
            finally:
                done()

    episodes = await asyncio.gather(*(one(number, spec) for number, spec in enumerate(specs)))
    said = {**policies[0].said, **policies[1].said}
    return list(episodes), saboteur, said, sum(policy.hostile for policy in policies)


def key_of(spec: EpisodeSpec) -> Key:
    return spec.task.key, spec.sample


async def check(
    environment: str, specs: list[EpisodeSpec], episodes: list[Episode], said: checks.Said, every: int
) -> tuple[int, list[str]]:
    """Return how many episodes were replayed, and all violations."""
    wrong = [
        *checks.lost_or_doubled(map(key_of, specs), episodes),
        *checks.not_as_played(said, episodes),
        *checks.anothers_text(episodes),
    ]
    env, planned = registry.make_environment(environment).env(), {key_of(spec): spec for spec in specs}
    chosen = [episode for episode in episodes[::every] if checks.key_of(episode) in planned]
    again = [await checks.not_repeatable(one, planned[checks.key_of(one)], env) for one in tqdm(chosen, "replays")]
    env.close()
    return again.count(""), [*wrong, *filter(None, again)]


async def run_part(part: Part, tasks: list[TaskRef], count: int, rates: Rates, args: argparse.Namespace) -> Played:
    """Run one environment's episodes, write and read their records, and check them."""
    specs, start = specs_of(part.environment, tasks, count), time.perf_counter()
    with tqdm(total=count, desc=part.environment, unit="episode") as bar:
        async with EnvPool(part.environment, args.workers, part.step_deadline_s) as pool:
            episodes, saboteur, said, hostile = await play(
                pool, specs, rates, at_once=args.at_once, seed=args.seed, done=bar.update
            )
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        write_episodes(Path(folder) / "episodes.jsonl", episodes)
        records = list(read_episodes(Path(folder) / "episodes.jsonl"))
    replayed, wrong = await check(part.environment, specs, records, said, rates.replay_every)
    return Played(part.environment, records, saboteur.injected, hostile, seconds, replayed, wrong)


def table(parts: list[Played]) -> str:
    """Return a table, a column for each environment; seconds are wall time without the checks."""
    columns = [part.figures() for part in parts]
    lines = [f"{'':28}" + "".join(f"{part.environment:>14}" for part in parts)]
    lines += [f"{name:28}" + "".join(f"{column[name]:>14}" for column in columns) for name in columns[0]]
    return "\n".join(lines)


async def run(args: argparse.Namespace) -> list[Played]:
    parts, rates = [], Rates()
    for part in PARTS:
        tasks = Catalogue(registry.make_environment(part.environment)).tasks(part.task, "test", part.games)
        parts.append(await run_part(part, tasks, round(part.share * args.episodes), rates, args))
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    parts = asyncio.run(run(args))
    print(table(parts))
    for violation in [violation for part in parts for violation in part.violations][:SHOWN]:
        print(f"VIOLATION: {violation}")
    if args.out:
        figures = {part.environment: part.figures() for part in parts}
        args.out.write_text(json.dumps({**figures, "rates": asdict(Rates()), "load": os.getloadavg()}, indent=1))
    sys.exit(1 if any(part.violations for part in parts) else 0)


if __name__ == "__main__":
    main()
