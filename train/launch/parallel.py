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
    launch = _Launch(folder, devices, config_dir)
    with ThreadPoolExecutor(len(devices)) as pool:
        try:
            return [line for line in pool.map(launch.run, runs) if line]
        except KeyboardInterrupt:
            launch.stop()
            raise


class _Launch:
    def __init__(self, folder: Path, devices: Sequence[str | None], config_dir: str | None) -> None:
        self._folder, self._config_dir = folder, config_dir
        self._free: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        for device in devices:
            self._free.put(device)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._starting, self._stopped = threading.Lock(), False

    def run(self, run: Run) -> str:
        """Run one on a free device; return a line if it failed, else ""."""
        device, log, start = self._free.get(), self._folder / f"{run.number}.log", time.monotonic()
        with self._starting:
            if self._stopped:
                self._free.put(device)
                return ""
            process = self._start(run, device, log)
            self._running.add(process)
        say(f"run {run.number} starts: {run.label}")
        code = process.wait()
        self._running.discard(process)
        self._free.put(device)
        how = "ended well" if code == 0 else f"failed with exit code {code}"
        say(f"run {run.number} {how} after {(time.monotonic() - start) / 60:.1f} min: {run.label}")
        return f"{run.label} (exit code {code}; {log})" if code else ""

    def stop(self) -> None:
        """End the active runs and start no more."""
        with self._starting:
            self._stopped = True
            for process in list(self._running):
                process.terminate()

    def _start(self, run: Run, device: str | None, log: Path) -> subprocess.Popen[bytes]:
        devices = {} if device is None else {"CUDA_VISIBLE_DEVICES": device}
        with log.open("ab") as output:
            return subprocess.Popen(
                command(run, self._config_dir),
                env=child_variables({LAUNCHED: "1", **devices}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - the parent is this thread, which waits for the process
            )
