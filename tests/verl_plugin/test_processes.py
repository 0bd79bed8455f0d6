"""Processes and threads of RL: the arguments and attempts of Ray's start, a start that hangs, a
worker in the trainer's thread, and what a process must not import."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock

import pytest
import torch
from omegaconf import OmegaConf

from turngrid.experiments.evaluation import process as evaluation
from turngrid.verl_plugin import agent_worker
from turngrid.verl_plugin.agent_worker import WorkerThread
from turngrid.verl_plugin.ray_settings import ray_settings
from turngrid.verl_plugin.rl import ATTEMPTS, start_ray
from turngrid.verl_plugin.sft import EpisodeSFTTrainer
from turngrid.verl_plugin.training import task, watchdog

CONFIG = OmegaConf.create({"ray_kwargs": {"ray_init": {"num_cpus": 2, "address": None}}})


def test_a_users_runtime_environment_stays_and_a_path_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    config = OmegaConf.merge(CONFIG, {"ray_kwargs": {"ray_init": {"runtime_env": {"env_vars": {"A": "1"}}}}})
    monkeypatch.setattr(sys, "executable", "/a b/python")
    monkeypatch.setattr(task, "set_environment", Mock())
    monkeypatch.setattr(task, "ray", ours := Mock(**{"is_initialized.return_value": False}))
    task.start_ray(config)  # on GPUs
    for given in (ray_settings(config, sys.executable), ours.init.call_args.kwargs):
        runtime = given["runtime_env"]
        assert (runtime["env_vars"]["A"], runtime["py_executable"]) == ("1", "'/a b/python'")


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

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def test_a_ray_that_was_too_slow_is_started_again_and_leaves_nothing_behind(capsys: pytest.CaptureFixture) -> None:
    with closing(SlowRay(failures=2)) as slow:
        start_ray({"num_cpus": 2}, slow)
        assert slow.asked == [{"num_cpus": 2}] * 3
        assert slow.running() == [False, False, True]
        assert "attempt 2 of 3" in capsys.readouterr().err


@pytest.mark.parametrize(("message", "attempts"), [("timed out during startup", ATTEMPTS), ("no such address", 1)])
def test_it_gives_up_in_the_end_and_on_anything_else_at_once(message: str, attempts: int) -> None:
    with closing(SlowRay(failures=9, message=message)) as slow:
        with pytest.raises(Exception, match=message):
            start_ray({}, slow)
        assert len(slow.asked) == attempts


# ---- a start that hangs ends the process and names the setting


SCRIPT = """
import time
from turngrid.verl_plugin.training.watchdog import Watchdog
dog = Watchdog(factor=1, least=0.1)
dog.start({seconds})
{then}
"""


def run(then: str, seconds: float) -> subprocess.CompletedProcess[str]:
    code = SCRIPT.format(seconds=seconds, then=then)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_a_start_that_hangs_ends_the_process() -> None:
    done = run("time.sleep(60)", seconds=0.3)
    assert done.returncode == 3
    assert "cluster.start_deadline_s=0.3" in done.stderr


HUNG = """
import subprocess, sys
other = "from turngrid.envs.utils import stacks; stacks.register(); print(flush=True); import time; time.sleep(60)"
worker = subprocess.Popen([sys.executable, "-c", other], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
worker.stdout.readline()
from turngrid.envs.utils import stacks
stacks.register()
for _ in range(3):
    dog.enter("update_actor")
    dog.enter("gen")
dog.enter("update_actor")  # its median is near 0 s, so its limit is the least one
try:
    worker.wait()
finally:
    worker.kill()
"""


def test_a_phase_that_hangs_leaves_the_stacks_of_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGRID_STACKS", str(tmp_path / "stacks"))
    monkeypatch.setenv("TURNGRID_REASON", str(tmp_path / "reason"))
    done = run(HUNG, seconds=60)
    assert done.returncode == 3
    assert (tmp_path / "reason").read_text().startswith("update_actor: it has not ended in 0 s")
    stacks = [file.read_text() for file in (tmp_path / "stacks").iterdir()]
    assert len(stacks) == 2 and sum("in wait" in text for text in stacks) == 1, stacks


def test_a_limit_follows_the_median_of_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0, 10, 20, 40, 50, 52, 60])
    monkeypatch.setattr(watchdog.time, "monotonic", lambda: next(now))
    dog = watchdog.Watchdog(factor=10, least=30)
    dog.enter("gen")
    assert dog.limit("gen") == 120
    for phase in ("update", "update", "gen", "update", "gen", "update", "gen"):  # the first has two parts
        dog.stay_in(phase)  # gen took 10, 20 and 2 s
    dog.end()
    assert dog.limit("gen") == 100 and dog.limit("update") == 100


def test_every_rank_of_sft_begins_a_step_with_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "current", dog := Mock())
    trainer: Any = object.__new__(EpisodeSFTTrainer)
    vars(trainer).update(device_name="cpu", engine=Mock(get_data_parallel_size=lambda: 1))
    assert trainer._get_batch_seqlens(dict.fromkeys(("input_ids", "attention_mask"), torch.ones(2, 3))) == [3, 3]
    dog.enter.assert_called_once_with("sft step")


def test_the_time_to_a_checkpoints_first_game_is_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "current", Mock(enter=(phases := []).append))
    model, stage = MagicMock(), MagicMock()
    model.__aenter__.return_value.roll_out = AsyncMock(side_effect=lambda *given: [given[-1](), given[-1]()])
    stage.open_pools.return_value.__aenter__.return_value = AsyncMock()
    for name, value in (("stage", stage), ("_model", lambda *_: model), ("evaluation_settings", lambda _: [Mock()])):
        monkeypatch.setattr(evaluation, name, value)
    asyncio.run(evaluation.evaluate(MagicMock(), [{"name": "rl", "path": "model", "library": None, "chat": {}}] * 2))
    assert phases == ["game", "game", "first game"] * 2


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
