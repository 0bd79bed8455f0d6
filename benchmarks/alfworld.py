"""ALFWorld: our engine against stock alfworld, the pool against one process, and making games.

    python -m benchmarks.alfworld [--games 12] [--seconds 8] [--repeats 3] [--make 120] [--workers
    N] [--out FILE.json]

Stock is TextWorld's PddlEnv under alfworld's wrappers, in this process, game by game beside ours,
on the same actions; every text is compared. All figures are given in processor time too, which a
machine that others use disturbs less. Targets: 1.8 times stock's steps/s; the pool 0.8 times (one
process x cores); 500 games a minute on two cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.env_pool import cpu_seconds, pool_steps_per_second, raw_steps_per_second
from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskRef

ENVIRONMENT, TASK = "alfworld", "all_types"
STEPS = 20
TARGETS = {"steps": 1.8, "pool": 0.8, "games_a_minute": 500}
BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"


def stock_env() -> Any:
    with tempfile.TemporaryDirectory() as nowhere, mock.patch.dict(os.environ, ALFWORLD_DATA=nowhere):
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    import textworld
    from textworld.envs import PddlEnv

    infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    return AlfredInfos(AlfredDemangler(PddlEnv(infos)))


def against_stock(tasks: list[TaskRef]) -> dict[str, float]:
    """Return steps/s of both on the same games and actions, by processor time, and the cost of a
    game before its first step.

    Raises:
        AssertionError: a text differs.
    """
    stock, ours = stock_env(), registry.make_environment(ENVIRONMENT).env(legal=True)
    spent = dict.fromkeys(("stock_open", "stock_steps", "ours_open", "ours_steps"), 0.0)
    for task in tasks:
        actions, texts = play_stock(stock, task, spent)
        assert play_ours(ours, task, actions, spent) == texts, f"{task.key}: the texts differ"
    steps = STEPS * len(tasks)
    rates = {f"{who}_steps_per_s": steps / spent[f"{who}_steps"] for who in ("stock", "ours")}
    opened = {f"{who}_open_s": spent[f"{who}_open"] / len(tasks) for who in ("stock", "ours")}
    return {**rates, **opened, "ratio": spent["stock_steps"] / spent["ours_steps"]}


def play_stock(env: Any, task: TaskRef, spent: dict[str, float]) -> tuple[list[str], list[str]]:
    """Draw legal commands at random; return them and every text, the introduction first."""
    start, rng = time.process_time(), random.Random(task.seed)
    env.load(task.game_file)
    state = env.reset()
    spent["stock_open"] += time.process_time() - start
    actions, texts = [], [state.feedback.removeprefix(BANNER).split("\n\n")[0]]
    start = time.process_time()
    while len(actions) < STEPS:
        actions.append(rng.choice(state["admissible_commands"]))
        state, _, done = env.step(actions[-1])
        texts.append(state.feedback)
        if done:
            state = env.reset()
    spent["stock_steps"] += time.process_time() - start
    return actions, texts


def play_ours(env: TextEnv, task: TaskRef, actions: list[str], spent: dict[str, float]) -> list[str]:
    start = time.process_time()
    texts = [env.reset(task, 0).text]
    spent["ours_open"] += time.process_time() - start
    start = time.process_time()
    for action in actions:
        result = env.step(action)
        texts.append(result.observation.text)
        if result.terminated:
            env.reset(task, 0)
    spent["ours_steps"] += time.process_time() - start
    return texts


async def pool(tasks: list[TaskRef], workers: int, seconds: float, repeats: int) -> dict[str, float]:
    """Return medians of whole episodes on 64 open games: in one process, and through the pool."""
    tasks = [tasks[number % len(tasks)] for number in range(64)]
    envs = [registry.make_environment(ENVIRONMENT).env() for _ in tasks]
    samples: dict[str, list[float]] = {"raw": [], "pool": [], "raw_cpu_s": [], "pool_cpu_s": []}
    async with EnvPool(ENVIRONMENT, workers, 60.0) as open_pool:
        sessions = [await open_pool.open() for _ in tasks]
        raw_steps_per_second(envs, tasks, 1.0)
        await pool_steps_per_second(sessions, tasks, 1.0)
        for _ in range(repeats):
            for side in ("raw", "pool"):
                start, cpu = time.perf_counter(), cpu_seconds(open_pool.pids)
                if side == "raw":
                    rate = raw_steps_per_second(envs, tasks, seconds)
                else:
                    rate = await pool_steps_per_second(sessions, tasks, seconds)
                samples[side].append(rate)
                used = cpu_seconds(open_pool.pids) - cpu
                samples[f"{side}_cpu_s"].append(used / (rate * (time.perf_counter() - start)))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    ratio = medians["pool"] / (medians["raw"] * workers)
    return {**medians, "ratio": ratio, "cpu_ratio": medians["raw_cpu_s"] / medians["pool_cpu_s"]}


def making(count: int, workers: int) -> dict[str, float]:
    """Make games into an empty cache, each replayed to a win; the start of processes counts."""
    with tempfile.TemporaryDirectory() as cache:
        start, before = time.perf_counter(), _children_cpu()
        Catalogue(registry.make_environment(ENVIRONMENT), cache).tasks(
            TASK, "train", count, workers=workers, progress=False
        )
        wall, cpu = time.perf_counter() - start, _children_cpu() - before
    return {
        "per_minute": 60 * count / wall,
        "cpu_s": cpu / count,
        "per_minute_of_idle_cores": 60 * workers * count / cpu,
    }


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--make", type=int, default=120)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    tasks = Catalogue(registry.make_environment(ENVIRONMENT)).tasks(TASK, "test", args.games)
    figures = {
        "stock": against_stock(tasks),
        "pool": asyncio.run(pool(tasks, args.workers, args.seconds, args.repeats)),
        "making": making(args.make, args.workers),
    }
    report(figures, args.workers)
    if args.out:
        args.out.write_text(json.dumps({**figures, "targets": TARGETS, "load": os.getloadavg()}, indent=1))


def report(figures: dict[str, dict[str, float]], workers: int) -> None:
    stock, pooled, made = figures["stock"], figures["pool"], figures["making"]
    print(f"{'same games, actions, texts':34}{'steps/s':>10}{'s to open':>11}   (processor time)")
    for who in ("stock", "ours"):
        print(f"  {who:32}{stock[f'{who}_steps_per_s']:>10.0f}{stock[f'{who}_open_s']:>11.3f}")
    print(f"  {'ours / stock':32}{stock['ratio']:>10.1f}   target >= {TARGETS['steps']}")
    print(f"{'whole episodes':34}{'steps/s':>10}{'CPU ms/step':>13}")
    print(f"  {'one process':32}{pooled['raw']:>10.0f}{1e3 * pooled['raw_cpu_s']:>13.2f}")
    print(f"  {f'pool, {workers} workers':32}{pooled['pool']:>10.0f}{1e3 * pooled['pool_cpu_s']:>13.2f}")
    print(f"  {'pool / (one process x cores)':32}{pooled['ratio']:>10.2f}   target >= {TARGETS['pool']}")
    print(f"  {'the same in CPU time a step':32}{pooled['cpu_ratio']:>10.2f}   at most, on idle cores")
    print(f"{'making games':34}{'a minute':>10}{'CPU s/game':>12}")
    print(f"  {f'{workers} workers, replay included':32}{made['per_minute']:>10.0f}{made['cpu_s']:>12.3f}")
    print(f"  {'the same on idle cores':32}{made['per_minute_of_idle_cores']:>10.0f}", end="")
    print(f"   target >= {TARGETS['games_a_minute']} on two cores")


if __name__ == "__main__":
    main()
