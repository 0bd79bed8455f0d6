"""Steps a second: one env after another in this process, against the pool on all cores, on the same
games; a row for each environment.

    python -m benchmarks.env_pool [env=NAME,NAME|all] [--games 64] [--seconds 8] [--repeats 3]
    [--workers N] [--out FILE.json]

``env``: textworld by default; ``all`` for each whose extra is installed, on its default task.
Both sides run whole episodes (reset, expert plan, the next reset) in the same 64 running games (at
most 16 different). The two are measured in turns, so that a busy machine is busy for both; the
medians are compared.
Target: pool >= 0.8 x one process x cores. On a machine that others use too, the processor time that
a step costs (workers and this process together) says more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from turngrid.envs import registry
from turngrid.envs.extensions import shipped
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool, Session
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError, TaskRef

TARGET = 0.8
SIDES = ("raw", "pool", "raw_cpu_s", "pool_cpu_s")


def raw_steps_per_second(envs: list[TextEnv], tasks: list[TaskRef], seconds: float) -> float:
    """Measure one process whose envs take turns step by step."""
    episodes = [_episodes(env, task) for env, task in zip(envs, tasks, strict=True)]
    steps, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        for episode in episodes:
            steps += next(episode)
    return steps / spent


def _episodes(env: TextEnv, task: TaskRef):
    while True:
        env.reset(task, 0)
        for action in task.expert_plan:
            env.step(action)
            yield 1


async def pool_steps_per_second(sessions: list[Session], tasks: list[TaskRef], seconds: float) -> float:
    start = time.perf_counter()
    end = start + seconds

    async def play(session: Session, task: TaskRef) -> int:
        steps = 0
        while time.perf_counter() < end:
            await session.reset(task, 0)
            for action in task.expert_plan:
                await session.step(action)
                steps += 1
        return steps

    steps = await asyncio.gather(*map(play, sessions, tasks))
    return sum(steps) / (time.perf_counter() - start)


def cpu_seconds(pids: list[int]) -> float:
    """Return the processor time that this process and those have used (Linux)."""
    used = time.process_time()
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


async def measure(tasks: list[TaskRef], workers: int, seconds: float, repeats: int) -> dict[str, list[float]]:
    """Return samples of both sides, taken in turns after a warm-up that loads every game."""
    environment = registry.make_environment(tasks[0].env)
    envs = [environment.env() for _ in tasks]
    samples: dict[str, list[float]] = {side: [] for side in SIDES}
    async with EnvPool(tasks[0].env, workers, 60.0) as pool:
        sessions = [await pool.open() for _ in tasks]
        await pool_steps_per_second(sessions, tasks, 1.0)
        raw_steps_per_second(envs, tasks, 1.0)
        for _ in range(repeats):
            start, cpu = time.perf_counter(), cpu_seconds(pool.pids)
            samples["raw"].append(raw_steps_per_second(envs, tasks, seconds))
            middle, cpu_middle = time.perf_counter(), cpu_seconds(pool.pids)
            samples["pool"].append(await pool_steps_per_second(sessions, tasks, seconds))
            end, cpu_end = time.perf_counter(), cpu_seconds(pool.pids)
            samples["raw_cpu_s"].append((cpu_middle - cpu) / (samples["raw"][-1] * (middle - start)))
            samples["pool_cpu_s"].append((cpu_end - cpu_middle) / (samples["pool"][-1] * (end - middle)))
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", nargs="?", default="env=textworld", help="env=NAME,NAME or env=all")
    parser.add_argument("--games", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    names = args.env.removeprefix("env=").split(",")
    rows = {}
    print(f"{'':14}{'steps/s':^20}{'CPU ms a step':^20}{f'pool / (raw x {args.workers})':>18}{'the same, CPU':>16}")
    print(f"{'':14}{'raw':>10}{'pool':>10}{'raw':>10}{'pool':>10}{f'target {TARGET}':>18}{'on idle cores':>16}")
    for name in list(registry.ENVIRONMENTS) if names == ["all"] else names:
        try:
            games = played_games(name, min(args.games, 16))
        except TaskError as reason:
            print(f"{name:14}skipped: {reason}")
            continue
        tasks = [games[index % len(games)] for index in range(args.games)]
        rows[name] = figures(asyncio.run(measure(tasks, args.workers, args.seconds, args.repeats)), args.workers)
        print(row(name, rows[name]), flush=True)
    if args.out:
        facts = {"games": args.games, "workers": args.workers, "target": TARGET, "load": os.getloadavg()}
        args.out.write_text(json.dumps({**facts, "unit": "steps/s, CPU s/step", "environments": rows}, indent=1))


def played_games(name: str, count: int) -> list[TaskRef]:
    """Return test games of the default task that have an expert plan.

    Raises:
        TaskError: an extra, data or a server is missing.
    """
    node = shipped("env", name)
    task = node.get("task") or node.get("id")
    games = Catalogue(registry.make_environment(name)).tasks(str(task), "test", count, at_most=["test"])
    if planned := [game for game in games if game.expert_plan]:
        return planned
    raise TaskError(f"no game of {task} has an expert plan")


def figures(samples: dict[str, list[float]], workers: int) -> dict[str, Any]:
    raw, pooled, raw_cpu, pool_cpu = (statistics.median(values) for values in samples.values())
    return {"ratio": pooled / (raw * workers), "cpu_ratio": raw_cpu / pool_cpu, **samples}


def row(name: str, found: dict[str, Any]) -> str:
    raw, pooled, raw_cpu, pool_cpu = map(statistics.median, (found[key] for key in SIDES))
    costs = f"{1e3 * raw_cpu:>10.3f}{1e3 * pool_cpu:>10.3f}"
    return f"{name:14}{raw:>10.0f}{pooled:>10.0f}{costs}{found['ratio']:>18.2f}{found['cpu_ratio']:>16.2f}"


if __name__ == "__main__":
    main()
