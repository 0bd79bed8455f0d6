"""The arguments Ray is started with, and its second attempt."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

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
