"""Several runs at once on this machine."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from turngrid.envs.utils.parent import die_with_parent
from turngrid.records.process.child import child_variables
from turngrid.records.process.exit_codes import say
from turngrid.train.launch.one_run import LAUNCHED, Run, command


def run_all(
    folder: Path, devices: Sequence[str | None], runs: Sequence[Run], config_dir: str | None = None
) -> list[str]:
    """Run all, as many at once as there are ``devices``; return a line for each that failed.

    Args:
        folder: folder for the logs, one a run.
        devices: the ``CUDA_VISIBLE_DEVICES`` of simultaneous runs; None: unchanged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{len(runs)} runs, {len(devices)} at a time; their output goes to {folder}/")
    running: set[subprocess.Popen[bytes]] = set()
    stopped = threading.Event()
    free: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for device in devices:
        free.put(device)

    def one(run: Run) -> str:
        device, log, start = free.get(), folder / f"{run.number}.log", time.monotonic()
        process = _start(command(run, config_dir), device, log)
        running.add(process)
        if stopped.is_set():
            process.terminate()
        say(f"run {run.number} starts: {run.label}")
        code = process.wait()
        running.discard(process)
        free.put(device)
        how = "ended well" if code == 0 else f"failed with exit code {code}"
        say(f"run {run.number} {how} after {(time.monotonic() - start) / 60:.1f} min: {run.label}")
        return f"{run.label} (exit code {code}; {log})" if code else ""

    with ThreadPoolExecutor(len(devices)) as pool:
        ends = [pool.submit(one, run) for run in runs]
        try:
            return [line for end in ends if (line := end.result())]
        except KeyboardInterrupt:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()
            raise


def _start(arguments: Sequence[str], device: str | None, log: Path) -> subprocess.Popen[bytes]:
    devices = {} if device is None else {"CUDA_VISIBLE_DEVICES": device}
    with log.open("ab") as output:
        return subprocess.Popen(
            arguments,
            env=child_variables({LAUNCHED: "1", **devices}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - the parent is this thread, which waits for the process
        )
