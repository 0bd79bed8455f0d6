"""A process that has imported what all of a run's processes need; Ray's workers are copies of it.

verl's trainer, agent loop and queue and our server import the same modules, each for itself: five core-seconds and 300 MB. So
the driver imports them once and leaves a copy of itself that waits. Where Ray would start a Python for a worker, it starts
``worker_start``, which asks that copy for one more; a copy takes 0.1 core-seconds. Where anything goes wrong until Ray has
accepted the worker, or copies' ids could be the same (``ray_ids``), ``worker_start`` starts one as Ray does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from envs.parent import die_with_parent
from verl_plugin.cpu.start import ray_ids
from verl_plugin.cpu.start.worker_start import JOB, PATIENCE_S, VARIABLE, same_user

IMPORTED = (
    "verl_plugin.training.task",
    "verl.workers.engine_workers",
    "verl_plugin.rollout.agent_worker",
    "verl.utils.tokenizer.continuous_token_wiring",
    "verl_plugin.servers.transformers_server.generator",
    "transfer_queue.controller",
    "transfer_queue.storage.simple_storage",
)


def leave(modules: tuple[str, ...] = IMPORTED) -> None:
    """Import, and leave a copy of this process that waits. To be called before Ray is imported or a thread is started."""
    if sys.platform != "linux" or "ray" in sys.modules:
        return
    _import(modules)
    gc.collect()
    gc.freeze()  # a collector that looks at an object writes to it, and copies share what neither has written to
    with suppress(OSError):  # no memory, or no such sockets here: Ray starts its workers itself
        if ray_ids.differ_in_copies():
            _fork(f"turngrid-{secrets.token_hex(16)}")


def _import(modules: tuple[str, ...]) -> None:
    # Ray's library reads both when it is loaded, and a worker that has no job, or no raylet's process, aborts when it connects.
    # It ends with that process: the raylet is not there yet, and ends with this one
    of_ray = {"RAY_JOB_ID": JOB, "RAY_RAYLET_PID": str(os.getpid())}
    os.environ.update(of_ray)
    try:
        with ray_ids.undrawn():
            for name in modules:
                importlib.import_module(name)
    finally:
        for name in of_ray:
            del os.environ[name]


def _fork(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")  # no file, so nothing is left
        listener.listen(64)
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork() == 0:
            _only(partial(_serve, listener))
    os.environ[VARIABLE] = name


def _only(story: Callable[[], None]) -> NoReturn:
    """All that a forked process does: whatever happens, it must not go on as the driver whose copy it is."""
    code: object = 1
    try:
        story()
        code = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - a worker's last word
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def _serve(listener: socket.socket) -> None:
    """The template's life; a request that fails is the end of its own copy alone."""
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as Ray's own: Ctrl-C is the driver's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    while True:
        asking, _ = listener.accept()
        with asking:
            if same_user(asking) and os.fork() == 0:
                listener.close()
                _only(partial(_become, asking))


def _become(asking: socket.socket) -> None:
    """The worker that Ray asked for, until it ends; killed where it does not come to be one."""
    signal.alarm(PATIENCE_S)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size = int.from_bytes(asking.recv(4, socket.MSG_WAITALL), "big")
    _, files, _, _ = socket.recv_fds(asking, 1, 3)
    request = json.loads(asking.recv(size, socket.MSG_WAITALL))
    _enter(request, files)
    _tell_when_connected(asking)
    sys.argv = request["arguments"]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()


def _enter(request: dict[str, Any], files: list[int]) -> None:
    """Files, folder, variables and random numbers of a process that was started afresh."""
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(request["folder"])
    Path("/proc/self/oom_score_adj").write_text(request["oom_score_adj"])  # Ray's workers are the first to go
    os.environ.clear()
    os.environ.update(request["variables"])
    importlib.import_module("ray._private.utils").update_envs(request["of_runtime_env"])
    importlib.import_module("ray._raylet").Config.initialize("")  # reads the environment again, with the token for Ray
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # all copies would draw the same; Python's own generator does this by itself


def _tell_when_connected(asking: socket.socket) -> None:
    worker = importlib.import_module("ray._private.worker")
    connect = worker.connect

    def connect_and_tell(*arguments: Any, **settings: Any) -> None:
        connect(*arguments, **settings)
        signal.alarm(0)
        asking.sendall(b"1")
        asking.close()

    worker.connect = connect_and_tell
