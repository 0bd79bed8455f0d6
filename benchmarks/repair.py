"""One evaluation of a repair task against the bare pytest run of the same tests on the same files.

    python -m benchmarks.repair [--repeats 15] [--tests 30] [--out FILE.json]

Both sides run one after the other, in turns, so that a busy machine is busy for both. ``bare``:
``python -m pytest -q FILES`` in a folder that holds the repaired repository, plugins and all.
``bare, no plugins``: the same without the plugins that happen to be installed. ``evaluation``:
``submit`` in the environment, from the edited repository to the score. Target: at most 1.5 x bare +
0.2 s, by the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from turngrid.envs.repair.env import RepairEnv, Setup
from turngrid.envs.repair.games import write
from turngrid.envs.repair.grading import Options, write_files
from turngrid.envs.repair.instance import Instance
from turngrid.envs.sandbox import sandbox
from turngrid.envs.types import TaskRef

FACTOR, EXTRA_S = 1.5, 0.2
MODULE = "def add(a, b):\n    return a {sign} b\n"


def instance(tests: int) -> Instance:
    """Return a module with one wrong line and that many tests, all of which fail."""
    body = "".join(
        f"\n\ndef test_{number}():\n    assert add({number}, 1) == {number + 1}\n" for number in range(tests)
    )
    return Instance.from_dict(
        {
            "instance_id": "benchmark-1",
            "repo": "turngrid/benchmark",
            "base_commit": "0",
            "problem_statement": "add subtracts",
            "FAIL_TO_PASS": [f"tests/test_add.py::test_{number}" for number in range(tests)],
            "files": {"add.py": MODULE.format(sign="-"), "tests/test_add.py": f"from add import add\n{body}"},
        }
    )


def bare(folder: Path, plugins: bool) -> Callable[[], object]:
    """Return a plain run of pytest, to be timed."""
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    env |= {} if plugins else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    return lambda: subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)


def evaluation(task: TaskRef, mode: str) -> Callable[[], float]:
    """Return a function that gives the seconds of one ``submit``, without reset and edit."""
    env = RepairEnv(Setup(show_lines=40, show_chars=2000, options=Options(mode)))

    def once() -> float:
        env.reset(task, 0)
        env.step("edit add.py 2-2\n    return a + b")
        start = time.perf_counter()
        won = env.step("submit").won
        spent = time.perf_counter() - start
        assert won
        return spent

    return once


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(repeats: int, tests: int) -> dict[str, list[float]]:
    """Return the seconds of every side, taken in turns after one warm-up."""
    one = instance(tests)
    with tempfile.TemporaryDirectory() as place:
        folder, game = Path(place) / "repo", Path(place) / "game"
        game.mkdir()
        write_files(folder, {**one.files, "add.py": MODULE.format(sign="+")})
        record = write(one, game, ())
        task = TaskRef("bench", "", {}, 0, "", str(game / record.file), record.sha256, "", (), record.fingerprint, 1.0)
        sides: dict[str, Callable[[], float]] = {
            "bare": lambda: timed(bare(folder, plugins=True)),
            "bare, no plugins": lambda: timed(bare(folder, plugins=False)),
            f"evaluation, {sandbox.level()}": evaluation(task, "auto"),
            "evaluation, limits": evaluation(task, "limits"),
        }
        for side in sides.values():
            side()
        samples: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(repeats):
            for name, side in sides.items():
                samples[name].append(side())
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--tests", type=int, default=30)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    samples = measure(args.repeats, args.tests)
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, seconds in medians.items():
        print(f"{name:28}{seconds:8.3f} s")
    allowed = {name: FACTOR * medians[name] + EXTRA_S for name in ("bare", "bare, no plugins")}
    for name, most in allowed.items():
        print(f"allowed by {name:17}{most:8.3f} s   ({FACTOR} x {medians[name]:.3f} + {EXTRA_S})")
    if args.out:
        args.out.write_text(json.dumps({"samples": samples, "allowed": allowed, "load": os.getloadavg()}, indent=1))


if __name__ == "__main__":
    main()
