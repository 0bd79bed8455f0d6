"""Where no copy of the template can be a worker, one is started as Ray starts it. (test_ray_start.py has workers that are.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import json, os, shlex, signal, subprocess, sys
from pathlib import Path
from verl_plugin.cpu.start import template, worker_start

PYTHON = shlex.quote(sys.executable)  # as a run of ours tells it to Ray, which gives it to a shell

def context_of(**context):
    return f"--serialized-runtime-env-context={json.dumps({'py_executable': PYTHON, **context})}"

def ask(variables={}, **context):
    asked = context_of(**context)
    command = [sys.executable, worker_start.__file__, asked, "--language=PYTHON", str(Path("worker.py").resolve()), "--number=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)
    print(done.stdout, end="", flush=True)
    print(done.stderr, end="", flush=True, file=sys.stderr)

template.PATIENCE_S = 5
template.leave(("ray._private.worker",))
print("left", file=open("begun", "a"))
(waiting,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
"""
WORKER = """
import os, sys, time
with open("begun", "a") as file:
    print(os.environ["RANK"], *sys.argv[1:], "copy" if "verl_plugin" in sys.modules else "fresh", file=file)
if "verl_plugin" in sys.modules:  # and Ray has not heard of it
    exec(os.environ.get("WG_PREFIX", "raise SystemExit(0)"))
print(os.environ["RANK"])
"""


def told(folder: Path, asked: str) -> tuple[list[str], list[str], str]:
    """What the workers say that Ray has started, which began, and what is on stderr."""
    (folder / "worker.py").write_text(WORKER, encoding="utf-8")
    variables = {"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": "/usr/bin:/bin"}
    code = [sys.executable, "-c", BEGIN + asked]
    done = subprocess.run(code, check=False, cwd=folder, env=variables, capture_output=True, text=True, timeout=120)
    return done.stdout.split(), (folder / "begun").read_text().splitlines(), done.stderr


# A worker whose copy fails, one for another Python, one after the template's end, and one where there never was any.
KINDS = """
ask(env_vars={"RANK": "one"})
ask(env_vars={"RANK": "two"}, py_executable=f"{PYTHON} -B")
os.kill(int(waiting), signal.SIGKILL)
ask(env_vars={"RANK": "three"})
del os.environ[worker_start.VARIABLE]
ask(env_vars={"RANK": "four"})
"""


def test_a_worker_is_started_where_it_cannot_be_copied(tmp_path: Path) -> None:
    started, begun, errors = told(tmp_path, KINDS)
    assert started == ["one", "two", "three", "four"], errors
    assert begun == [
        "left",
        *[f"one --number=1 {kind}" for kind in ("copy", "fresh")],
        *[f"{rank} --number=1 fresh" for rank in ("two", "three", "four")],
    ]


# One with a variable that libraries read when they are imported, one of another job than the template's, one that is for any.
OTHERS = """
ask(env_vars={"RANK": "one", "OMP_NUM_THREADS": "3"})
ask({"RAY_JOB_ID": "02000000"}, env_vars={"RANK": "two"})
ask({"RAY_JOB_ID": "ffffffff"}, env_vars={"RANK": "any"})
"""


def test_a_worker_that_its_imports_would_tell_apart_is_started_afresh(tmp_path: Path) -> None:
    started, begun, errors = told(tmp_path, OTHERS)
    assert started == ["one", "two", "any"], errors
    assert [line.split()[::2] for line in begun[1:]] == [
        ["one", "fresh"],
        ["two", "fresh"],
        ["any", "copy"],
        ["any", "fresh"],
    ]


FAILING = """
ask(env_vars={"RANK": "one", "WG_PREFIX": "time.sleep(60)"})
ask(env_vars={"RANK": "two", "WG_PREFIX": "raise KeyError('lost')"})
ask(env_vars={"RANK": "three", "WG_PREFIX": "sys.exit('a last word')"})
"""


def test_a_copy_that_hangs_is_killed_and_one_that_fails_says_why(tmp_path: Path) -> None:
    started, begun, errors = told(tmp_path, FAILING)
    assert started == ["one", "two", "three"], errors
    assert [line.split()[-1] for line in begun] == ["left", *["copy", "fresh"] * 3]
    assert "KeyError: 'lost'" in errors and "a last word\n" in errors


GONE = """
request = {"folder": "/gone", "variables": {}, "oom_score_adj": "0", "of_runtime_env": {}, "arguments": ["worker.py"]}
print(worker_start._accepted(os.environ[worker_start.VARIABLE], json.dumps(request).encode()))
Path("removed").mkdir()
os.chdir("removed")
os.rmdir("../removed")
command = [sys.executable, worker_start.__file__, context_of(), "--language=PYTHON", "x.py"]
print(subprocess.run(command, capture_output=True).returncode)
print(len(Path(f"/proc/{waiting}/task/{waiting}/children").read_text()))
"""


def test_a_copy_whose_folder_is_gone_ends_and_is_no_second_driver(tmp_path: Path) -> None:
    started, begun, errors = told(tmp_path, GONE)
    assert started == ["False", "2", "0"], "Python's code for a file that is not there; no child is left: " + errors
    assert begun == ["left"]
    assert "No such file or directory: '/gone'" in errors


ANOTHER_USER = """
os.seteuid(65534)
try:
    print(worker_start._accepted(os.environ[worker_start.VARIABLE], b"{}"))
except ConnectionError:
    print("refused")
os.seteuid(0)
with template.socket.socket(template.socket.AF_UNIX) as listener:
    listener.bind("\\0another's")
    os.seteuid(65534)
    listener.listen()
    os.seteuid(0)
    print(worker_start._accepted("another's", b"{}"))
ask(env_vars={"RANK": "one"})
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a while")
def test_other_users_are_not_answered_nor_asked(tmp_path: Path) -> None:
    started, begun, errors = told(tmp_path, ANOTHER_USER)
    assert started == ["False", "False", "one"], errors
    assert begun == ["left", "one --number=1 copy", "one --number=1 fresh"], "the template still answers"


LEFT = """
import os
from verl_plugin.cpu.start import template, worker_start
template.leave({})
print(worker_start.VARIABLE in os.environ, *open(f"/proc/self/task/{{os.getpid()}}/children").read().split())
"""


def left(folder: Path, modules: str) -> tuple[list[str], str]:
    """Whether there is a template, and the process that it is; what is on stderr."""
    variables = {"PYTHONPATH": f"{folder}:{Path(__file__).parents[3]}", "PATH": "/usr/bin:/bin", "VERL_PLATFORM": "cpu"}
    code = [sys.executable, "-c", LEFT.format(modules)]
    done = subprocess.run(code, check=False, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split(), done.stderr


@pytest.mark.parametrize(
    ("module", "why"), [("import ray\nray.ActorClassID.from_random()", "the same ids"), ("import lost", "named 'lost'")]
)
def test_there_is_no_template_where_an_id_has_been_drawn_or_an_import_fails(
    tmp_path: Path, module: str, why: str
) -> None:
    (tmp_path / "imported.py").write_text(module, encoding="utf-8")
    there, errors = left(tmp_path, "('imported',)")
    assert there == ["False"] and why in errors


def test_nothing_that_a_run_imports_draws_one(tmp_path: Path) -> None:
    (there, *processes), errors = left(tmp_path, "")
    assert there == "True" and len(processes) == 1, errors
