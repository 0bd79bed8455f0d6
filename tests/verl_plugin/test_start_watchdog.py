"""A start that hangs ends, and says what it waited for."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import time
from verl_plugin.training import start_watchdog
with start_watchdog.begin(0.3):
    {}
{}
time.sleep(5)
"""


def run(then: str, seconds: float, inside: str = "pass") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(inside, then)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.mark.parametrize("inside", ["time.sleep(5)", "time.sleep(0.2)"], ids=["imports-hang", "later"])
def test_a_start_that_hangs_ends_the_process(inside: str) -> None:
    done = run("print(start_watchdog._timer.interval < 0.11, flush=True)", 60, inside)
    assert "False" not in done.stdout, "it counts from before the imports"
    assert done.returncode == 3
    assert "within 0.3 s" in done.stderr and "cluster.start_deadline_s" in done.stderr


def test_a_start_in_time_is_left_alone() -> None:
    assert run("start_watchdog.step_began()", seconds=60).returncode == 0
