"""A start that hangs ends, and says what it waited for."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import time
from verl_plugin.training import start_watchdog
with start_watchdog.begin({}):
    {}
{}
time.sleep(600)
"""


def run(then: str, limit_s: float, inside: str = "pass") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(limit_s, inside, then)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("inside", ["time.sleep(600)", "time.sleep(0.2)"], ids=["imports-hang", "later"])
def test_a_start_that_hangs_ends_the_process(inside: str) -> None:
    done = run("print(start_watchdog._timer.interval < 0.11, flush=True)", 0.3, inside)
    assert "False" not in done.stdout, "it counts from before the imports"
    assert done.returncode == 3
    assert "within 0.3 s" in done.stderr and "cluster.start_deadline_s" in done.stderr


def test_a_start_in_time_is_left_alone() -> None:
    """Its timer ends at once; joined before its time is up, one that goes on would end the process."""
    assert run("start_watchdog.step_began(); start_watchdog._timer.join(); raise SystemExit", 60).returncode == 0
