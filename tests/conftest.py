"""What holds for every test: one thread a library, no network look-ups, verl's CPU platform; and
what only saves time."""

import asyncio
import gc
import importlib
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from turngrid.envs.games.cache import cache_root
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VERL_PLATFORM", "cpu")
os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "turngrid.verl_plugin")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")
# OmegaConf's loader is a subclass of it: libyaml's takes a fifth off each of a thousand configs
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
importlib.import_module("turngrid.verl_plugin")  # before transformers is imported, which takes it 0.4 s less then


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What has been imported by then is a million objects in which no garbage is to be found; and a
    config alone is ten thousand, for which Python would look fifteen times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(100_000)


# Share one Ray, and the first ones one queue of verl's, whose start takes 13 s of a core: one
# worker runs them, one after the other (verl_plugin/conftest.py).
WITH_RAY = (
    "test_steps",
    "test_contexts",
    "test_reasoning",
    "test_turn_updates",
    "test_methods",
    "test_token_accounting",
    "test_value_heads",
    "test_task_replay",
    "test_server_faults",
    "test_parity",
    "test_server",
    "test_async_trainer",
    "test_averaged",
)
PLAIN_VERL = ("test_platform", "test_verl_changes", "test_verl_bugs")  # share a process of verl without our plugin
# What takes longest, longest first: begun last, one of these would keep one worker busy when the
# others have ended.
LONG = (
    "test_whole_run",
    *WITH_RAY,
    "test_slurm_jobs",
    *PLAIN_VERL,
    "test_train_play",
    "test_train_sweep",
    "test_environments_contract",
    "test_evaluate",
    "test_train_fuzz",
    "test_loop",
    "test_train_app",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {f"{name}.py": number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONG)))


class Scheduling(LoadFileScheduling):
    """A worker is given whole files, those that share something together; the next one when one
    test is left, not two, which may be long while another worker has nothing to do."""

    def _reschedule(self, node: WorkerController) -> None:
        if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((names[0] for names in (WITH_RAY, PLAIN_VERL) if Path(file).stem in names), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def game_cache() -> Path:
    """The cache of every run on this machine: making a TextWorld game takes a second of a core."""
    return cache_root()


@pytest.fixture(scope="session")
def games() -> list[TaskRef]:
    """Four games of demonstrations, made once and kept."""
    return Catalogue(make_environment("textworld"), None).tasks("w2-o3-q4", "demonstrations", 4, progress=False)


@pytest.fixture(scope="module")
def composed() -> Iterator[Any]:
    """Composes any number of configs; Hydra is initialised once a module."""
    from turngrid.config.compose import composer  # not for the files that compose nothing

    with composer() as compose:
        yield compose


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls a command's ``main``, which answers in one line and does nothing else."""

    def answer(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> str:
        assert main(arguments) == 2
        out, err = capfd.readouterr()
        (line,) = err.splitlines()
        assert out == "" and line.startswith("turngrid: ")
        return line

    return answer


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of a module's pools."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def pool_of_one(runner: asyncio.Runner) -> Iterator[Callable[[str], EnvPool]]:
    """A pool of one process for an environment, which lists what it would accept; it ends with the
    module's tests."""
    with ExitStack() as stack:

        def pool(environment: str) -> EnvPool:
            made = EnvPool(environment, workers=1, step_deadline_s=60.0, legal=True)
            runner.run(made.__aenter__())
            stack.callback(lambda: runner.run(made.close()))
            return made

        yield pool
