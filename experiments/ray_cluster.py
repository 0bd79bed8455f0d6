"""Ray over the nodes of one job: a head on the first, a node of Ray's on each of the others, and nobody else's business.

The head's address and a token that is good for this cluster alone go through a file that only the job's owner can read.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.child import child_environment, die_with_parent

MEETING_SECONDS = 600.0  # nodes of a job start together, but images may have to be fetched
STOP_SECONDS = 20.0
LONGEST_TMP = 40  # characters: Ray puts sockets below, whose path Linux cuts at 107
WORKERS = {  # Ray's workers take their environment from the node's process, not from the driver
    "VERL_USE_EXTERNAL_MODULES": "verl_plugin",
    "TOKENIZERS_PARALLELISM": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
}


class RayClusterFailed(RuntimeError):
    """A node of Ray's did not start, or the nodes did not find each other."""


@dataclass(frozen=True)
class Cluster:
    """One attempt of one job.

    Args:
        place: a folder that all nodes see and no other attempt uses.
        nodes: of the job.
        gpus, cpus: of each node; None: as many as SLURM says, or as Ray finds.
    """

    place: Path
    nodes: int
    gpus: int | None = None
    cpus: int | None = None

    @contextmanager
    def head(self) -> Iterator[dict[str, str]]:
        """On the first node: the environment variables of a driver, once all nodes have joined.

        Raises:
            RayClusterFailed: they have not within ten minutes.
        """
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        address, port = node_address(), _free_port()
        variables = self._variables(secrets.token_hex(32)) | {"RAY_ADDRESS": f"{address}:{port}"}
        with self._node(["--head", f"--port={port}", "--include-dashboard=false"], address, variables) as node:
            try:
                _wait_for_port(address, port, node)
                self._publish(variables)
                self._all_joined(variables)
                yield variables
            finally:
                (self.place / "ended").touch()

    def serve(self) -> None:
        """On every other node: be one of Ray's nodes until the head's block ends.

        Raises:
            RayClusterFailed: no head has shown itself within ten minutes.
        """
        variables = self._meet()
        with self._node([f"--address={variables['RAY_ADDRESS']}"], node_address(), variables) as node:
            while not (self.place / "ended").exists() and node.poll() is None:
                time.sleep(1)

    def _variables(self, token: str) -> dict[str, str]:
        """A temporary folder with the same name on every node, as Ray wants it, and of this job alone."""
        root = tempfile.gettempdir()
        folder = Path(root if len(root) <= LONGEST_TMP else "/tmp") / f"turngrid-{self.place.name}"
        return {**WORKERS, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "RAY_TMPDIR": str(folder)}

    @contextmanager
    def _node(
        self, arguments: Sequence[str], address: str, variables: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        folder = Path(variables["RAY_TMPDIR"])
        folder.mkdir(mode=0o700, exist_ok=True)
        resources = [f"--num-cpus={self._cpus()}", *([] if self.gpus is None else [f"--num-gpus={self.gpus}"])]
        words = ["start", *arguments, f"--node-ip-address={address}", *resources, "--block", "--disable-usage-stats"]
        # The command `ray` lies where pip put it; the module is where this Python is.
        node = subprocess.Popen(
            [sys.executable, "-P", "-m", "ray.scripts.scripts", *words],
            env=child_environment(variables),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
        )
        try:
            yield node
        finally:
            _stop(node)
            shutil.rmtree(folder, ignore_errors=True)

    def _cpus(self) -> int:
        told = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE")
        return self.cpus or int(told or len(os.sched_getaffinity(0)))

    def _publish(self, variables: Mapping[str, str]) -> None:
        """Written whole before it has its name."""
        draft = self.place / ".head"
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(dict(variables)), encoding="utf-8")
        draft.rename(self.place / "head.json")

    def _meet(self) -> dict[str, str]:
        end = time.monotonic() + MEETING_SECONDS
        while not (self.place / "head.json").exists():
            if time.monotonic() > end:
                raise RayClusterFailed(f"no head of Ray's in {self.place} within {MEETING_SECONDS:g} s")
            time.sleep(0.5)
        found = json.loads((self.place / "head.json").read_text(encoding="utf-8"))
        return {str(key): str(value) for key, value in found.items()}

    def _all_joined(self, variables: Mapping[str, str]) -> None:
        """In a process of its own: Ray changes the signal handlers of whoever asks."""
        command = [sys.executable, "-P", "-m", "experiments.ray_cluster", str(self.nodes)]
        done = subprocess.run(command, env=child_environment(variables), check=False, preexec_fn=die_with_parent)
        if done.returncode:
            raise RayClusterFailed(f"{self.nodes} nodes of Ray's were not there within {MEETING_SECONDS:g} s")


def node_address() -> str:
    """The address by which SLURM reaches this node; outside SLURM, what its name resolves to."""
    name = os.environ.get("SLURMD_NODENAME")
    told = None
    if name and shutil.which("scontrol"):
        command = ["scontrol", "--oneliner", "show", "node", name]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
        told = re.search(r"\bNodeAddr=(\S+)", shown)
    return socket.gethostbyname(told[1] if told else socket.gethostname())


def wait_for_nodes(count: int, seconds: float = MEETING_SECONDS) -> bool:
    """Whether so many nodes of the cluster at ``RAY_ADDRESS`` are alive before the time is over."""
    import ray

    ray.init(address="auto", log_to_driver=False)
    end = time.monotonic() + seconds
    while sum(node["Alive"] for node in ray.nodes()) < count:
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def _free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def _wait_for_port(address: str, port: int, node: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + MEETING_SECONDS
    while node.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RayClusterFailed(f"the head of Ray's at {address}:{port} did not start; its words are in the job's log")


def _stop(node: subprocess.Popen[bytes]) -> None:
    """Ends this node's processes and no others: ``ray stop`` would end those of every job on the machine."""
    if node.poll() is None:
        node.terminate()
        try:
            node.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(node.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    sys.exit(0 if wait_for_nodes(int(sys.argv[1])) else 1)
