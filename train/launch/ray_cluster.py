"""A Ray cluster over the nodes of one job, with its head on the first node.

The head's address and the cluster's token are in a file that only the job's owner can read.
"""

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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from turngrid.envs.utils.parent import die_with_parent
from turngrid.records.process.child import child_variables, stop
from turngrid.records.process.exit_codes import Failure

MEETING_SECONDS = 600.0  # nodes of a job start together, but images may have to be fetched
STOP_SECONDS = 20.0
HEAD, DRAFT, ENDED = "head.json", ".head", "ended"
LONGEST_ROOT = 24  # characters: Ray adds 71 for its sockets to our 12, and Linux takes 107
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # as in ``tasks.stage_process``


@dataclass(frozen=True)
class Cluster:
    """The cluster of one attempt of one job."""

    folder: Path  # which all nodes can access and no other attempt uses
    nodes: int
    gpus: int | None = None  # of each node; None: all that Ray detects
    cpus: int | None = None  # of each node; None: SLURM's number

    @contextmanager
    def head(self) -> Iterator[dict[str, str]]:
        """Run the head on the first node; yield a driver's environment once all nodes have joined.

        Raises:
            Failure: a node did not join within ten minutes.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with socket.create_server(("", 0)) as server:  # a free port
            address, port = node_address(), int(server.getsockname()[1])
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        temporary = {"RAY_TMPDIR": str(temporary_folder())}  # Ray needs the same path on every node
        variables = {**QUIET, **token, **temporary, "RAY_ADDRESS": f"{address}:{port}"}
        with self._node(["--head", f"--port={port}", "--include-dashboard=false"], address, variables) as node:
            try:
                self._gather(variables, node)
                yield variables
            finally:
                (self.folder / ENDED).touch()
        shutil.rmtree(variables["RAY_TMPDIR"], ignore_errors=True)

    def serve(self) -> None:
        """Run a Ray node on another node until the head's block ends.

        Raises:
            Failure: there is no head within ten minutes, or this node cannot join it.
        """
        variables = self._meet()
        with self._node([f"--address={variables['RAY_ADDRESS']}"], node_address(), variables) as node:
            while not (self.folder / ENDED).exists():
                if node.poll() is not None:
                    raise Failure("this Ray node has ended and the others go on; see above")
                time.sleep(1)
        shutil.rmtree(variables["RAY_TMPDIR"], ignore_errors=True)

    @contextmanager
    def _node(
        self, arguments: Sequence[str], address: str, variables: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        Path(variables["RAY_TMPDIR"]).mkdir(mode=0o700, exist_ok=True)
        slurms = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE")
        cpus = self.cpus or int(slurms or len(os.sched_getaffinity(0)))
        resources = [f"--num-cpus={cpus}", *([] if self.gpus is None else [f"--num-gpus={self.gpus}"])]
        words = ["start", *arguments, f"--node-ip-address={address}", *resources, "--block", "--disable-usage-stats"]
        # the module is this Python's; the command `ray` may be another's
        node = subprocess.Popen(
            [sys.executable, "-P", "-m", "ray.scripts.scripts", *words],
            env=child_variables(variables),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
        )
        try:
            yield node
        finally:
            stop(node, STOP_SECONDS)
            with suppress(ProcessLookupError):  # `ray stop` would end those of every job on the machine
                os.killpg(node.pid, signal.SIGKILL)

    def _meet(self) -> dict[str, str]:
        end = time.monotonic() + MEETING_SECONDS
        while not (self.folder / HEAD).exists():
            if time.monotonic() > end:
                raise Failure(f"no Ray head in {self.folder} within {MEETING_SECONDS:g} s")
            time.sleep(0.5)
        return json.loads((self.folder / HEAD).read_text(encoding="utf-8"))

    def _gather(self, variables: Mapping[str, str], node: subprocess.Popen[bytes]) -> None:
        """Wait until all nodes have joined, in a process whose signal handlers Ray may change."""
        draft = self.folder / DRAFT
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(dict(variables)), encoding="utf-8")
        command = [sys.executable, "-P", "-m", "turngrid.train.launch.ray_cluster", str(self.folder), str(self.nodes)]
        environment = child_variables(variables)
        asking = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent)  # noqa: PLW1509
        while asking.poll() is None and node.poll() is None:
            time.sleep(0.5)
        if asking.poll() != 0:
            asking.kill()
            raise Failure(f"Ray did not start on {self.nodes} nodes; see the job's log")


def temporary_folder() -> Path:
    """Return a folder for one attempt's Ray: the default ``/tmp/ray`` may be another user's."""
    root = tempfile.gettempdir()
    return Path(root if len(root) <= LONGEST_ROOT else "/tmp") / f"tg-{secrets.token_hex(4)}"


def node_address() -> str:
    """Return the address by which SLURM reaches this node, or that of its name."""
    name = os.environ.get("SLURMD_NODENAME")
    address = None
    if name and shutil.which("scontrol"):
        command = ["scontrol", "--oneliner", "show", "node", name]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
        address = re.search(r"\bNodeAddr=(\S+)", shown)
    return socket.gethostbyname(address[1] if address else socket.gethostname())


def gather(folder: Path, count: int, seconds: float = MEETING_SECONDS) -> bool:
    """Publish the head's file once it answers; return whether ``count`` nodes join in time."""
    import ray

    end = time.monotonic() + seconds
    while not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False)
        except (ConnectionError, RuntimeError, TimeoutError) as error:  # of a head that is still starting
            print(f"Ray's head does not answer yet: {error}", flush=True)
            if time.monotonic() > end:
                return False
            time.sleep(1)
    (folder / DRAFT).rename(folder / HEAD)  # written whole before it has its name
    while sum(node["Alive"] for node in ray.nodes()) < count:
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


if __name__ == "__main__":
    sys.exit(0 if gather(Path(sys.argv[1]), int(sys.argv[2])) else 1)
