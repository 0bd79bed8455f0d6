"""What Ray is started with, and what happens where it is too slow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from verl_plugin.cpu.start.ray_start import ATTEMPTS, ray_settings, start_ray

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


BULBS = "import numpy, ray\n@ray.remote\nclass Bulb:\n    pass\n"  # its id is drawn when it is imported, as with verl's
SMALL = """
import os, sys
from verl_plugin.cpu.start import template
template.leave(("bulbs",))
(waiting,) = map(int, open(f"/proc/self/task/{os.getpid()}/children").read().split())
import benchmarks.ray_on_cpu, psutil, ray
from concurrent.futures import ThreadPoolExecutor
from omegaconf import OmegaConf
from verl_plugin.cpu.start.ray_start import ray_settings, start_ray

class Lamp:
    def lit(self):
        import os
        return os.environ["WG_PREFIX"], os.getppid(), os.getcwd(), open("/proc/self/oom_score_adj").read()

    def kept(self, what):
        \"\"\"An object that another thread puts, what this actor then reads, and random numbers.\"\"\"
        with ThreadPoolExecutor(1) as thread:
            put = thread.submit(ray.put, what).result()
            other = thread.submit(ray.ActorClassID.from_random).result()
        return put.hex(), ray.get(put)[0], ray.ActorClassID.from_random().hex(), other.hex(), np.random.random()

import numpy as np
asked = {"address": "local", "num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
start_ray(ray_settings(OmegaConf.create({"ray_kwargs": {"ray_init": asked}}), sys.executable))
again = {"num_cpus": 0, "max_restarts": 1, "max_task_retries": 1}
lamps = [ray.remote(Lamp).options(**again, runtime_env={"env_vars": {"WG_PREFIX": w}}).remote() for w in ("on", "off")]
lit = ray.get([lamp.lit.remote() for lamp in lamps])
kept = ray.get([lamp.kept.remote([word] * 300_000) for lamp, word in zip(lamps, ("a", "b"))])
apart = [len(set(pair)) for pair in zip(*kept)], [read for _, read, *_ in kept]
ray.kill(lamps[0], no_restart=False)
lit.append(ray.get(lamps[0].lit.remote()))
started = psutil.Process().children(recursive=True)
ours = [" ".join(process.cmdline()) for process in started if process.status() != psutil.STATUS_ZOMBIE]
ray.shutdown()
print(*apart)
print([word for word, parent, folder, score in lit if (parent, folder, int(score)) == (waiting, os.getcwd(), 1000)])
print([name for name in ("monitor.py", "dashboard.py", "log_monitor.py") if any(f"/{name} " in line for line in ours)])
"""


def test_rays_own_processes_that_are_of_use_and_no_others(tmp_path: Path) -> None:
    """And its workers are copies of the template, each with its own environment and ids; one that died, again."""
    (tmp_path / "bulbs.py").write_text(BULBS, encoding="utf-8")
    path = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[3]}"}
    done = subprocess.run(
        [sys.executable, "-c", SMALL], check=False, env=path, capture_output=True, text=True, timeout=300
    )
    apart, *rest = done.stdout.splitlines()[-3:]
    assert apart == "[2, 2, 2, 2, 2] ['a', 'b']", done.stderr
    assert rest == ["['on', 'off', 'on']", "['log_monitor.py']"], done.stderr
