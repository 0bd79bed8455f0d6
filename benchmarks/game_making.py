"""Seconds a game on one core: this project's making in one process, against the ``tw-make``
command, on the same games.

    python -m benchmarks.game_making [--task w2-o3-q4] [--games 8] [--out FILE.json]

Our time includes starting the process, importing TextWorld, compiling and replaying the expert
plan; the command starts anew for each game, as it does for its users, and checks nothing. Target:
at least 2.5 times as fast.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turngrid.envs import registry
from turngrid.envs.hosting.process import WorkerProcess

TARGET = 2.5
_SERIAL = slice(0x12, 0x18)


async def ours(params: dict[str, int], seeds: list[int], folder: Path) -> tuple[list[int], float]:
    """Return the seeds whose games were accepted, and the seconds of all seeds on one core."""
    start = time.perf_counter()
    worker = await WorkerProcess.start(registry.ENVIRONMENTS["textworld"])
    accepted = []
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        made = await worker.request({"op": "make", "params": params, "seed": seed, "folder": str(place)}, 600.0)
        if "record" in made:
            accepted.append(seed)
    spent = time.perf_counter() - start
    await worker.close()
    return accepted, spent


def command(params: dict[str, int], seeds: list[int], folder: Path) -> float:
    """Return the seconds that ``tw-make`` takes for the same games."""
    tool = str(Path(sys.executable).with_name("tw-make"))
    sizes = ["--world-size", params["rooms"], "--nb-objects", params["objects"], "--quest-length", params["quest"]]
    start = time.perf_counter()
    for seed in seeds:
        one = ["--quest-max-breadth", 1, "--seed", seed, "--output", folder / f"{seed}.z8", "--silent", "-f"]
        subprocess.run([tool, "custom", *map(str, sizes + one)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def same_game(left: Path, right: Path) -> bool:
    """Return whether two story files are equal, except for the date."""
    stories = [bytearray(path.read_bytes()) for path in (left, right)]
    for story in stories:
        story[_SERIAL] = b"000000"
    return stories[0] == stories[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="w2-o3-q4")
    parser.add_argument("--games", type=int, default=8)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    params = registry.make_environment("textworld").parse_task(args.task)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        accepted, ours_s = asyncio.run(ours(params, list(range(1, args.games + 1)), folder))
        command_s = command(params, accepted, folder)
        same = sum(same_game(folder / str(seed) / "game.z8", folder / f"{seed}.z8") for seed in accepted)
    report(args, len(accepted), same, ours_s / len(accepted), command_s / len(accepted))


def report(args: argparse.Namespace, games: int, same: int, ours_s: float, command_s: float) -> None:
    ratio = command_s / ours_s
    print(f"{args.task}: {games} games of {args.games} seeds, {same} the same story file as the command's")
    print(f"{'':28}{'s/game':>10}")
    print(f"{'tw-make':28}{command_s:>10.2f}")
    print(f"{'ours (rejected seeds too)':28}{ours_s:>10.2f}")
    print(f"{'times as fast':28}{ratio:>10.2f}   target >= {TARGET}")
    if args.out:
        figures = {"task": args.task, "games": games, "same": same, "ours_s": ours_s, "command_s": command_s}
        args.out.write_text(
            json.dumps({**figures, "ratio": ratio, "target": TARGET, "load": os.getloadavg()}, indent=1)
        )


if __name__ == "__main__":
    main()
