"""A stage's process, and what is left of it after a kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import small

from turngrid.records.process.child import StageFailed, run_child

DRIVER = """
import sys
from pathlib import Path
from turngrid.records.process.child import run_child
run_child("stage", [], folder=Path(sys.argv[1]), log=Path(sys.argv[1]) / "log", variables={"PYTHONPATH": sys.argv[1]})
"""
STAGE = """
import subprocess, sys, time
from pathlib import Path
sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
Path("sleeper").write_text(str(sleeper.pid))
time.sleep(600)
"""
FORESEEN = """
import sys
from turngrid.records.process.child import stage_exit_code
from turngrid.records.process.exit_codes import Failure

def run():
    if sys.argv[1:]:
        [][0]
    print("others write too")
    raise Failure("the game broke\\nat lamps.py:3")

code = stage_exit_code(run)
print("and go on writing")
sys.exit(code)
"""


def test_nothing_outlives_a_killed_driver(tmp_path: Path):
    """Also a process in a session of its own, as Ray's helpers are."""
    (tmp_path / "stage.py").write_text(STAGE)
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], cwd=Path(__file__).parents[2])
    small.wait_for(lambda: (tmp_path / "sleeper").exists() and (tmp_path / "sleeper").read_text() != "", 300)
    family = psutil.Process(driver.pid).children(recursive=True)
    (reaper,) = [process for process in family if "reaper.py" in " ".join(process.cmdline())]
    looks = reaper.num_ctx_switches().voluntary + 4  # it sleeps after each look
    small.wait_for(lambda: reaper.num_ctx_switches().voluntary >= looks, 300)
    assert len(family) == 3  # the reaper, the stage and its sleeper
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    _, alive = psutil.wait_procs(family, timeout=100)
    assert not alive


def test_a_failing_stage_is_reported_with_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It imports what this process would: its ``config`` is the user's, not ``turngrid.config``."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "config.py").write_text("REASON = 'no such game'")
    (tmp_path / "bad.py").write_text("import config; print('on the way'); raise SystemExit(config.REASON)")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(StageFailed, match=r"exit code 1; see .*log\n(.*\n)*  \| no such game"):
        run_child("bad", [], folder=tmp_path / "elsewhere", log=tmp_path / "log")


def test_a_foreseen_error_of_a_stage_is_reported_in_its_own_words(tmp_path: Path):
    """Other processes still write to the log; the stage then fails in another way."""
    (tmp_path / "bad.py").write_text(FORESEEN)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    place = {"folder": tmp_path, "log": tmp_path / "log", "variables": {"PYTHONPATH": path}}
    with pytest.raises(StageFailed, match=r"^the game broke\nat lamps.py:3\n.* exit code 1; see .*log$"):
        run_child("bad", [], **place)
    with pytest.raises(StageFailed, match=r"see .*log\n(.*\n)*  \| IndexError: list index out of range$"):
        run_child("bad", ["unforeseen"], **place)
