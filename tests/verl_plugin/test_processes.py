"""Processes and threads of RL: the arguments and attempts of Ray's start, a start that hangs, a
worker in the trainer's thread, and what a process must not import."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from omegaconf import OmegaConf

from turngrid.verl_plugin import agent_worker
from turngrid.verl_plugin.agent_worker import WorkerThread
from turngrid.verl_plugin.cpu.early_start import ATTEMPTS, ray_settings, start_ray

CONFIG = OmegaConf.create({"ray_kwargs": {"ray_init": {"num_cpus": 2, "address": None}}})


def test_an_interpreter_in_a_path_with_a_space_is_quoted() -> None:
    settings = ray_settings(CONFIG, "/home/a b/.venv/bin/python")
    assert settings == {"num_cpus": 2, "runtime_env": {"py_executable": "'/home/a b/.venv/bin/python'"}}


def test_else_ray_is_left_to_find_it() -> None:
    assert ray_settings(CONFIG, "/usr/bin/python3") == {"num_cpus": 2}


def test_a_users_runtime_environment_stays() -> None:
    config = OmegaConf.merge(CONFIG, {"ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": {"A": "1"}}}}})
    runtime = ray_settings(config, "/a b/python")["runtime_env"]
    assert runtime == {"env_vars": {"A": "1"}, "py_executable": "'/a b/python'"}


class SlowRay:
    """Starts a process and then gives up, as Ray does, as often as it is told to."""

    def __init__(self, failures: int, message: str = "The current node timed out during startup.") -> None:
        self.failures, self.message = failures, message
        self.started: list[subprocess.Popen] = []
        self.asked: list[dict] = []

    def __call__(self, **settings: object) -> None:
        self.asked.append(settings)
        self.started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        if len(self.asked) <= self.failures:
            raise Exception(self.message)  # noqa: TRY002 - as Ray does

    def running(self) -> list[bool]:
        return [process.poll() is None for process in self.started]

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def test_a_ray_that_was_too_slow_is_started_again_and_leaves_nothing_behind(capsys: pytest.CaptureFixture) -> None:
    slow = SlowRay(failures=2)
    try:
        start_ray({"num_cpus": 2}, slow)
        assert slow.asked == [{"num_cpus": 2}] * 3
        assert slow.running() == [False, False, True]
        assert "attempt 2 of 3" in capsys.readouterr().err
    finally:
        slow.end()


@pytest.mark.parametrize(("message", "attempts"), [("timed out during startup", ATTEMPTS), ("no such address", 1)])
def test_it_gives_up_in_the_end_and_on_anything_else_at_once(message: str, attempts: int) -> None:
    slow = SlowRay(failures=9, message=message)
    try:
        with pytest.raises(Exception, match=message):
            start_ray({}, slow)
        assert len(slow.asked) == attempts
    finally:
        slow.end()


# ---- a start that hangs ends the process and names the setting


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


# ---- an agent-loop worker in a thread of the trainer's process


class Worker:
    """Its episodes never end, and its environments do not start."""

    def __init__(self, *_: Any) -> None:
        self.loop = self.pool = self
        self.tasks: list[asyncio.Task[None]] = []

    async def warm_up(self) -> None:
        raise OSError("no process")

    async def generate_sequences(self, batch: Any) -> None:
        if batch is None:
            raise ValueError("no batch")
        self.tasks.append(asyncio.create_task(asyncio.sleep(1000)))


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerThread]:
    monkeypatch.setattr(agent_worker, "AgentLoopWorker", Worker)
    made = WorkerThread()
    yield made
    made._events.close()


def test_it_ends_with_episodes_under_way(thread: WorkerThread) -> None:
    thread.generate_sequences("step 1")
    thread.generate_sequences("step 2")
    assert len(thread.worker.tasks) == 2
    thread.close()
    assert not thread._thread.is_alive()


def test_an_error_reaches_the_caller(thread: WorkerThread) -> None:
    with pytest.raises(ValueError, match="no batch"):
        thread.generate_sequences(None)
    thread.close()


# ---- what a process must not import that only holds a handle


CODE = """
import sys, turngrid.verl_plugin.servers.transformers_server.server
print([name for name in ('torch', 'transformers', 'verl') if name in sys.modules])
"""


def test_a_server_is_held_without_anything_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
