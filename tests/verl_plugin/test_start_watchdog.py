"""A start that hangs ends the process and names the setting."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import time
from turngrid.verl_plugin.training import start_watchdog
start_watchdog.begin({seconds})
{then}
"""


def run(then: str, seconds: float) -> subprocess.CompletedProcess[str]:
    code = SCRIPT.format(seconds=seconds, then=then)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_a_start_that_hangs_ends_the_process() -> None:
    done = run("time.sleep(60)", seconds=0.3)
    assert done.returncode == 3
    assert "cluster.start_deadline_s=0.3" in done.stderr


def test_a_start_in_time_is_left_alone() -> None:
    assert run("start_watchdog.step_began(); start_watchdog._timer.join()", seconds=90).returncode == 0
