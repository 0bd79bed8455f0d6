"""A Ray, with logical GPUs for replicas that ask for one, and verl's queue, which files that follow
one another share; and a process group of one process."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from turngrid.records.process.child import VLLM_ON_CPU
from turngrid.verl_plugin.training import watchdog

HERE = Path(__file__).parent
PLACES = (HERE.parents[1], HERE.parent, HERE)
ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(map(str, PLACES)),
    "OMP_NUM_THREADS": "1",
    "VERL_PLATFORM": "cpu",
} | VLLM_ON_CPU
ONE_PROCESS = {"WORLD_SIZE": 1, "RANK": 0, "LOCAL_WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "", "MASTER_PORT": 0}


@pytest.fixture(scope="module")
def one_process() -> Iterator[None]:
    """What verl's engines and workers ask of the process that they are in."""
    import torch.distributed as dist

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ONE_PROCESS.items():
            patch.setenv(name, str(value))
        dist.init_process_group("cpu:gloo,cpu:gloo", store=dist.HashStore(), rank=0, world_size=1)
        yield
        dist.destroy_process_group()


@pytest.fixture(scope="module", autouse=True)
def nothing_watched() -> Iterator[None]:
    """A step that a test calls by hand leaves the watchdog waiting; it would end the process."""
    yield
    watchdog.current.end()


@pytest.fixture(scope="session")
def plain_verl() -> dict[str, Any]:
    """Of verl without our plugin: ``signatures`` of what our changes point to, ``bugs`` ("" for one
    that is there)."""
    from test_verl_bugs import BUGS
    from test_verl_changes import ENTRIES

    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_USE_", "VERL_PLATFORM"))}
    done = subprocess.run(
        [sys.executable, str(HERE / "plain_verl.py")],
        check=False,
        input=json.dumps({"entries": [entry[:2] for entry in ENTRIES], "bugs": BUGS}),
        env={**kept, "VERL_USE_EXTERNAL_PLUGINS": "none", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


_running: list[pytest.Item | None] = [None, None]  # a test, and the one after it


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    _running[:] = item, nextitem


def _handed_on(name: str) -> bool:
    """The next file's tests have this fixture, too."""
    return all(item is not None and _has(item, name) for item in _running)


def _has(item: pytest.Item, name: str) -> bool:
    """Some test of this one's file has Ray and the fixture; other files have other queues."""
    names = (set(getattr(one, "fixturenames", ())) for one in item.session.items if one.path == item.path)
    return any({name, "ray_session"} <= found for found in names)


@pytest.fixture(scope="module")
def ray_session() -> Iterator[None]:
    import ray  # not for the files that need none

    if not ray.is_initialized():
        _start_ray()
    yield
    if not _handed_on("ray_session"):
        ray.shutdown()


def _start_ray() -> None:
    """As a run does: Ray gives up on a loaded machine, and is then started again."""
    from turngrid.verl_plugin.rl import start_ray

    settings = {
        "address": "local",
        "num_cpus": 4,
        "num_gpus": 1,
        "include_dashboard": False,
        "object_store_memory": 80 * 2**20,
        "log_to_driver": False,
        "runtime_env": {"env_vars": ENVIRONMENT, "py_executable": shlex.quote(sys.executable)},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # two processes that no test would use
        start_ray(settings)


@pytest.fixture(scope="module")
def queue(ray_session: None) -> Iterator[None]:
    """verl's queue, empty. It is closed before its Ray, since a process remembers one whose Ray is
    gone."""
    import transfer_queue as tq
    from omegaconf import OmegaConf

    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    assert not any(tq.kv_list().values())
    yield
    if _handed_on("queue"):
        client = tq.get_client()
        for partition in client.get_partition_list():
            client.clear_partition(partition)
    else:
        tq.close()


@pytest.fixture(scope="module")
def model(queue: None, one_process: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """For the steps of a trainer."""
    from engine_probe import one_layer

    return one_layer(tmp_path_factory.mktemp("model"))


_served: list[Any] = []


@pytest.fixture(scope="module")
def served(ray_session: None) -> Iterator[Any]:
    """Our server as verl's replica, which files that follow one another share."""
    from parity_servers import end, transformers_server

    if not _served:
        _served.append(asyncio.run(transformers_server()))
    yield _served[0]
    if not _handed_on("served"):
        end(_served.pop().replica)


# ---- games, and the tiny model that plays them; nothing is imported for files that ask for none


@pytest.fixture(scope="module")
def codec() -> Any:
    from transformers import AutoTokenizer

    from turngrid.verl_plugin.rollout.token_stream import TokenCodec

    return TokenCodec(AutoTokenizer.from_pretrained(PLACES[0] / "assets" / "tiny"), "qwen3")


@pytest.fixture(scope="module")
def table(games: Any, codec: Any, runner: asyncio.Runner) -> Iterator[Any]:
    from game_table import Table

    from turngrid.envs.hosting.pool import EnvPool
    from turngrid.verl_plugin.servers.transformers_server.generator import Generator

    pool = EnvPool("textworld", workers=1, step_deadline_s=60.0)
    runner.run(pool.__aenter__())
    yield Table(games[0], codec, Generator.from_pretrained(str(PLACES[0] / "assets" / "tiny")), runner, pool)
    runner.run(pool.close())
