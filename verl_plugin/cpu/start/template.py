"""A process that has imported what all of a run's processes need; Ray's workers are copies of it.

verl's trainer, agent loop and queue and our server import the same modules, each for itself: five core-seconds and 300 MB. So
the driver imports them once and leaves a copy of itself that waits. Where Ray would start a Python for a worker, it starts
``worker_start``, which asks that copy for one more; a copy takes 0.1 core-seconds. Where anything goes wrong until Ray has
accepted the worker, ``worker_start`` starts one as Ray does.
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
from contextlib import suppress
from typing import Any

from envs.parent import die_with_parent
from verl_plugin.cpu.start.worker_start import VARIABLE

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
    # Ray's library notes the job and the raylet's process, at whose end a worker ends too, when it is loaded
    of_ray = {"RAY_JOB_ID": "01000000", "RAY_RAYLET_PID": str(os.getpid())}
    os.environ.update(of_ray)
    for name in modules:
        importlib.import_module(name)
    for name in of_ray:
        del os.environ[name]
    gc.collect()
    gc.freeze()  # a collector that looks at an object writes to it, and copies share what neither has written to
    with suppress(OSError):  # no memory, or no such sockets here: Ray starts its workers itself
        _fork(f"turngrid-{secrets.token_hex(16)}")


def _fork(name: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")  # no file, so nothing is left
    listener.listen(64)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork() == 0:
        die_with_parent()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as Ray's own: Ctrl-C is the driver's
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            _answer(listener)
    listener.close()
    os.environ[VARIABLE] = name


def _answer(listener: socket.socket) -> None:
    asking, _ = listener.accept()
    files: list[int] = []
    try:
        size = int.from_bytes(asking.recv(4, socket.MSG_WAITALL), "big")
        _, files, _, _ = socket.recv_fds(asking, 1, 3)
        request = json.loads(asking.recv(size, socket.MSG_WAITALL))
        if os.fork() == 0:
            listener.close()
            _become(request, files, asking)
    except (OSError, ValueError) as error:  # who asked is gone
        print(f"template: {error!r}", file=sys.stderr, flush=True)
    finally:
        asking.close()
        for file in files:
            os.close(file)


def _become(request: dict[str, Any], files: list[int], asking: socket.socket) -> None:
    """The worker that Ray asked for, until it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    importlib.import_module("ray._private.utils").update_envs(request["of_runtime_env"])
    importlib.import_module("ray._raylet").Config.initialize("")  # reads the environment again
    _tell_when_connected(asking)
    sys.argv = request["arguments"]
    code: object = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    finally:
        atexit._run_exitfuncs()
        os._exit(code if isinstance(code, int) else 1)


def _tell_when_connected(asking: socket.socket) -> None:
    worker = importlib.import_module("ray._private.worker")
    connect = worker.connect

    def connect_and_tell(*arguments: Any, **settings: Any) -> None:
        connect(*arguments, **settings)
        asking.sendall(b"1")
        asking.close()

    worker.connect = connect_and_tell
