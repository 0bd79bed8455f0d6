"""Where no copy of the template can be a worker, one is started as Ray starts it. (test_ray_start.py has workers that are.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A worker whose copy fails, one for another Python, one after the template's end, and one where there never was any.
ASK = """
import json, os, signal, subprocess, sys
from pathlib import Path
from verl_plugin.cpu.start import template, worker_start

def ask(**context):
    asked = f"--serialized-runtime-env-context={json.dumps(context)}"
    command = [sys.executable, worker_start.__file__, asked, "--language=PYTHON", "worker.py", "--number=1"]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="", flush=True)

template.leave(("ray._private.worker",))
(waiting,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
ask(env_vars={"LAMP": "one"})
ask(env_vars={"LAMP": "two"}, py_executable=f"{sys.executable} -B")
os.kill(int(waiting), signal.SIGKILL)
ask(env_vars={"LAMP": "three"})
del os.environ[worker_start.VARIABLE]
ask(env_vars={"LAMP": "four"})
"""
WORKER = """
import os, sys
with open("begun", "a") as file:
    print(os.environ["LAMP"], *sys.argv[1:], "copy" if "verl_plugin" in sys.modules else "fresh", file=file)
if "verl_plugin" in sys.modules:
    raise SystemExit(0)  # before Ray has heard of it
print(os.environ["LAMP"])
"""


def test_a_worker_is_started_where_it_cannot_be_copied(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER, encoding="utf-8")
    path = {"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", ASK], check=False, cwd=tmp_path, env=path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["one", "two", "three", "four"], done.stderr
    begun = (tmp_path / "begun").read_text().splitlines()
    assert begun == [f"one --number=1 {kind}" for kind in ("copy", "fresh")] + [
        f"{lamp} --number=1 fresh" for lamp in ("two", "three", "four")
    ]
