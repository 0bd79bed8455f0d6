"""Steps a second: one env after another in this process, against the pool on all cores, on the same
games.

    python -m benchmarks.env_pool [--games 64] [--seconds 8] [--repeats 3] [--workers N] [--out
    FILE.json]

Both sides play whole episodes (reset, expert plan, the next reset) of the same 64 open games. The
two are measured in turns, so that a busy machine is busy for both; the medians are compared.
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

from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool, Session
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskRef

TARGET = 0.8


def raw_steps_per_second(envs: list[TextEnv], tasks: list[TaskRef], seconds: float) -> float:
    """One process, its envs taking turns step by step."""
    samples_per_game = [_episodes(env, task) for env, task in zip(envs, tasks, strict=True)]
    steps, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        for play in samples_per_game:
            steps += next(play)
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
    """Processor time that this process and those have used (Linux)."""
    used = time.process_time()
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


async def measure(tasks: list[TaskRef], workers: int, seconds: float, repeats: int) -> dict[str, list[float]]:
    """Median-ready samples of both sides, taken in turns after a warm-up that loads every game."""
    environment = registry.make_environment("textworld")
    envs = [environment.env() for _ in tasks]
    samples: dict[str, list[float]] = {"raw": [], "pool": [], "raw_cpu_s": [], "pool_cpu_s": []}
    async with EnvPool("textworld", workers, 60.0) as pool:
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
    parser.add_argument("--games", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    games = Catalogue(registry.make_environment("textworld")).tasks("w2-o3-q4", "test", min(args.games, 16))
    tasks = [games[index % len(games)] for index in range(args.games)]
    samples = asyncio.run(measure(tasks, args.workers, args.seconds, args.repeats))
    report(samples, args)


def report(samples: dict[str, list[float]], args: argparse.Namespace) -> None:
    raw, pooled, raw_cpu, pool_cpu = (statistics.median(values) for values in samples.values())
    ratio = pooled / (raw * args.workers)
    print(f"{'':28}{'steps/s':>10}{'CPU ms/step':>14}")
    print(f"{'one process':28}{raw:>10.0f}{1e3 * raw_cpu:>14.2f}")
    print(f"{f'pool, {args.workers} workers':28}{pooled:>10.0f}{1e3 * pool_cpu:>14.2f}")
    print(f"{'pool / (one process x cores)':28}{ratio:>10.2f}   target >= {TARGET}")
    print(f"{'the same in CPU time a step':28}{raw_cpu / pool_cpu:>10.2f}   at most, on idle cores")
    if args.out:
        figures = {
            "games": args.games,
            "workers": args.workers,
            "ratio": ratio,
            "cpu_ratio": raw_cpu / pool_cpu,
            "target": TARGET,
            **samples,
        }
        args.out.write_text(json.dumps({**figures, "unit": "steps/s, CPU s/step", "load": os.getloadavg()}, indent=1))


if __name__ == "__main__":
    main()
