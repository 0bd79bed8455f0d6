"""A small broken library in SWE-Gym's form, and a way to play it without a catalogue."""

import json
from pathlib import Path
from typing import Any

from turngrid.envs.repair.games import write
from turngrid.envs.repair.instance import Instance
from turngrid.envs.types import TaskRef

WRONG = '"""Sums."""\n\n\ndef add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n'
RIGHT = WRONG.replace("a - b", "a + b")
TESTS = (
    "from shop.calc import add, mul\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
    "def test_add_none():\n    assert add(2, 0) == 2\n\n\ndef test_mul():\n    assert mul(2, 3) == 6\n"
)
GOLD = """diff --git a/shop/calc.py b/shop/calc.py
--- a/shop/calc.py
+++ b/shop/calc.py
@@ -2,7 +2,7 @@


 def add(a, b):
-    return a - b
+    return a + b


 def mul(a, b):
"""


def row(**changes: Any) -> dict[str, Any]:
    """A row of an instance file; two tests, one of which fails, and the files that they need."""
    return {
        "instance_id": "shop__calc-1",
        "repo": "shop/calc",
        "base_commit": "0" * 40,
        "problem_statement": "add gives the difference of its arguments.\n\nIt should give their sum.",
        "FAIL_TO_PASS": ["tests/test_calc.py::test_add"],
        "PASS_TO_PASS": json.dumps(["tests/test_calc.py::test_add_none", "tests/test_calc.py::test_mul"]),
        "patch": GOLD,
        "test_patch": "",
        "files": {"README.md": "# Shop\n", "shop/__init__.py": "", "shop/calc.py": WRONG, "tests/test_calc.py": TESTS},
        **changes,
    }


def task(folder: Path, instance: Instance, expert_plan: tuple[str, ...] = ()) -> TaskRef:
    """The instance as a game on disk, unchecked."""
    record = write(instance, folder, expert_plan)
    return record.task("swegym", "all", {}, 0, "train", folder / record.file)
