"""The broken repositories that cheats and honest repairs are tried on: three of ``repo_repair``,
one in SWE-Gym's form."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.registry import make_environment
from turngrid.envs.repair import bugs, mutate
from turngrid.envs.repair import games as making
from turngrid.envs.repair.bugs import Bug
from turngrid.envs.repair.games import write
from turngrid.envs.repair.instance import Instance
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskRef


@dataclass(frozen=True)
class Game:
    """A task, and an environment that plays it."""

    task: TaskRef
    env: TextEnv


# Library, module, sound text, spoilt text.
_BUGS = {
    "runs": ("encoding", "runs.py", 'return "".join(parts)', "return None"),
    "zigzag": ("encoding", "compact.py", "if number % 2 == 0 else -(", "if number % 2 != 0 else -("),
    "sums": ("matrices", "matrices.py", "lambda a, b: a + b", "lambda a, b: a - b"),
}

MEAN = '''"""Averages."""

import math


def mean(numbers):
    """The arithmetic mean."""
    return sum(numbers) / (len(numbers) + 1)


def largest(numbers):
    return max(numbers)
'''
MEAN_LINE = MEAN.split("\n").index("    return sum(numbers) / (len(numbers) + 1)") + 1
_TEST_LARGEST = "from stats.mean import largest\n\n\ndef test_largest():\n    assert largest([1, 3, 2]) == 3\n"
_TEST_MEAN = """
import json
import math
import unittest
from pathlib import Path

from stats.mean import mean

EXPECTED = json.loads((Path(__file__).parent / "expected.json").read_text())


class TestMean(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 6]), 3)


def test_the_mean_of_equal_numbers_is_close_to_them():
    assert math.isclose(mean([0.1] * 3), 0.1)


def test_expected():
    for numbers, wanted in EXPECTED:
        assert mean(numbers) == wanted
"""
_MEAN_TESTS = ("TestMean::test_mean", "test_the_mean_of_equal_numbers_is_close_to_them", "test_expected")
_STATS: dict[str, Any] = {
    "instance_id": "shop__stats-1",
    "repo": "shop/stats",
    "base_commit": "0" * 40,
    "problem_statement": "mean divides by one more than there are numbers.",
    "FAIL_TO_PASS": [f"checks/test_mean.py::{test}" for test in _MEAN_TESTS],
    "PASS_TO_PASS": ["checks/test_largest.py::test_largest"],
    "patch": f"""--- a/stats/mean.py
+++ b/stats/mean.py
@@ -{MEAN_LINE},1 +{MEAN_LINE},1 @@
-    return sum(numbers) / (len(numbers) + 1)
+    return sum(numbers) / len(numbers)
""",
    "files": {
        "README.md": "# Stats\n",
        "stats/__init__.py": "",
        "stats/mean.py": MEAN,
        "checks/expected.json": "[[[2, 4], 3], [[5], 5]]\n",
        "checks/test_largest.py": _TEST_LARGEST,
        "checks/test_mean.py": _TEST_MEAN,
    },
}


def prepare(folder: Path) -> dict[str, Game]:
    """Every game by name, written below ``folder``; the environments are the caller's to close."""
    repair, swegym = make_environment("repo_repair").env(), make_environment("swegym").env()
    games = {name: Game(_task("repo_repair", making.instance_of(_bug(name)), folder / name), repair) for name in _BUGS}
    return games | {"stats": Game(_task("swegym", Instance.from_dict(_STATS), folder / "stats"), swegym)}


def _bug(name: str) -> Bug:
    library, path, sound, spoilt = _BUGS[name]
    source = bugs.library(library).files[path]
    wanted = source.replace(sound, spoilt, 1)
    return next(
        Bug(library, (edit,))
        for edit in bugs.library_edits(library)
        if edit.path == path and mutate.apply(source, [edit]) == wanted
    )


def _task(env: str, instance: Instance, folder: Path) -> TaskRef:
    folder.mkdir(parents=True)
    record = write(instance, folder, ())
    return record.task(env, "", {}, 0, "train", folder / record.file)
