"""Several runs at once on this machine."""

from __future__ import annotations

import queue
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envs.utils.parent import die_with_parent
from records.process.child import child_variables
from records.process.exit_codes import say
from train.launch.launching import LAUNCHED, STARTED, Run, command, failures, runs_of

STOPPED = 130


class Launch:
    """Runs that share this machine, each a process with a log of its own.

    Args:
        folder: this launch gets a folder of its own there, with a log a run.
        places: as many runs go at once; each is the ``CUDA_VISIBLE_DEVICES`` of the run that has it, None: as it is.
        config_dir: where the runs find groups besides ours.
    """

    def __init__(self, folder: Path, places: Sequence[str | None], config_dir: str | None = None) -> None:
        self._logs, self._config_dir, self._count = folder / STARTED, config_dir, len(places)
        self._places: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        for place in places:
            self._places.put(place)
        self._at_work: dict[int, subprocess.Popen[bytes]] = {}
        self._stopped = False

    def run(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[int]:
        """Run all of them and return their exit codes; those that fail are in ``failures``."""
        runs = runs_of(job_overrides, first, STARTED)
        self._logs.mkdir(parents=True, exist_ok=True)
        say(f"{len(runs)} runs, {self._count} at a time; what they print goes to {self._logs}/")
        with ThreadPoolExecutor(self._count) as pool:
            try:
                return list(pool.map(self._one, runs))
            except KeyboardInterrupt:
                self._stopped = True
                for process in list(self._at_work.values()):
                    process.terminate()
                raise

    def _one(self, run: Run) -> int:
        if self._stopped:
            return STOPPED
        place, log, start = self._places.get(), self._logs / f"{run.number}.log", time.monotonic()
        say(f"run {run.number} starts: {run.label}")
        code = self._process(run, place, log)
        self._places.put(place)
        how = "ended well" if code == 0 else f"failed with exit code {code}"
        say(f"run {run.number} {how} after {(time.monotonic() - start) / 60:.1f} min: {run.label}")
        if code:
            failures.append(f"{run.label} (exit code {code}; {log})")
        return code

    def _process(self, run: Run, place: str | None, log: Path) -> int:
        devices = {} if place is None else {"CUDA_VISIBLE_DEVICES": place}
        with log.open("ab") as output:
            process = subprocess.Popen(
                command(run, self._config_dir),
                env=child_variables({LAUNCHED: "1", **devices}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - the parent is this thread, which waits for the process
            )
            self._at_work[run.number] = process
            if self._stopped:  # meanwhile
                process.terminate()
            return process.wait()
