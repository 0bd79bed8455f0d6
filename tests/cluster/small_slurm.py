"""A real SLURM for tests, on loopback only: munged, slurmctld and slurmd daemons of our own.

Each node has two GPUs that are links to /dev/null.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
GPUS, CPUS = 2, 8
CONF = """
ClusterName=small
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={root}/munge/sock
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
MpiDefault=none
ReturnToService=2
InactiveLimit=0
MinJobAge=300
KillWait=3
Waittime=0
SlurmdParameters=config_overrides
PlugStackConfig=/dev/null
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
"""


def missing() -> list[str]:
    """Programs that this host lacks."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class SmallSlurm:
    """Two nodes; ``environment`` makes SLURM's commands talk to it."""

    def __init__(self, root: Path) -> None:
        self.root, self.nodes = root, ["n1", "n2"]
        self.environment = {**os.environ, "SLURM_CONF": str(root / "slurm.conf")}

    def start(self) -> None:
        """Raises AssertionError if it does not come up within 200 seconds."""
        for folder in ("munge", "state", "run", "log", "dev", *(f"spool/{node}" for node in self.nodes)):
            (self.root / folder).mkdir(parents=True)
        self._munge()
        self._configure()
        self._daemon("slurmctld", "-c")
        for node in self.nodes:
            self._daemon("slurmd", "-N", node)
        self._wait_for_nodes()

    def _munge(self) -> None:
        place = self.root / "munge"
        place.chmod(0o700)
        (place / "key").write_bytes(os.urandom(1024))
        (place / "key").chmod(0o400)
        files = [f"--{name}-file={place / name}" for name in ("key", "pid", "log", "seed")]
        subprocess.run(["munged", "--force", f"--socket={place / 'sock'}", *files], check=True, timeout=200)

    def _configure(self) -> None:
        for gpu in range(GPUS):
            (self.root / "dev" / f"nvidia{gpu}").symlink_to("/dev/null")
        host, ports = socket.gethostname().split(".")[0], _free_ports(1 + len(self.nodes))
        shared = {"root": self.root, "host": host, "user": getpass.getuser()}
        lines = [CONF.format(port=ports[0], **shared)]
        for node, port in zip(self.nodes, ports[1:], strict=True):
            where = f"NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            lines.append(f"NodeName={node} {where} CPUs={CPUS} RealMemory=16000 Gres=gpu:{GPUS} State=UNKNOWN")
        lines.append(f"PartitionName=main Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP")
        (self.root / "slurm.conf").write_text("\n".join(lines) + "\n")
        devices = f"File={self.root}/dev/nvidia[0-{GPUS - 1}]"
        gres = [f"NodeName={node} Name=gpu {devices}" for node in self.nodes]
        (self.root / "gres.conf").write_text("\n".join(["AutoDetect=off", *gres]) + "\n")

    def _daemon(self, *command: str) -> None:
        subprocess.run([*command, "-f", self.environment["SLURM_CONF"]], check=True, timeout=200, env=self.environment)

    def _wait_for_nodes(self) -> None:
        end = time.monotonic() + 200
        while self.command("sinfo", "-h", "-t", "idle", "-N", "-o", "%N").split() != self.nodes:
            logs = "\n".join(path.read_text()[-2000:] for path in (self.root / "log").glob("*.log"))
            assert time.monotonic() < end, f"SLURM did not come up\n{logs}"
            time.sleep(0.1)

    def command(self, *command: str) -> str:
        """What one of SLURM's commands prints."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=self.environment, check=False)
        return done.stdout

    def hurry(self, job_id: str) -> None:
        """Without the two minutes that SLURM lets a job wait that has come back into the queue, and
        with time enough for it.

        Not at once: a node takes a job that starts within the second of its requeue for one that
        was killed (its credentials are dated in whole seconds), and the job would end FAILED
        without a word in its log.
        """
        _until(lambda: "PENDING BeginTime" in self.command("squeue", "-h", "-j", job_id, "-o", "%T %r"), 120)
        self.command("scontrol", "update", f"JobId={job_id}", "TimeLimit=600", "StartTime=now+2")

    def forget(self) -> None:
        """Its controller starts anew and knows of no job."""
        file = self.root / "run" / "slurmctld.pid"
        _end([int(file.read_text())])
        file.unlink(missing_ok=True)
        self._daemon("slurmctld", "-c")
        self._wait_for_nodes()

    def stop(self) -> None:
        """Cancel every job, and end the daemons that ``start`` started, by their process ids."""
        if jobs := self.command("squeue", "-h", "-o", "%A").split():
            self.command("scancel", *jobs)
            _until(lambda: not self.command("squeue", "-h", "-t", "R,CG", "-o", "%A").split(), 10)
        pids = [
            *(self.root / "run").glob("slurmd-*.pid"),
            self.root / "run" / "slurmctld.pid",
            self.root / "munge" / "pid",
        ]
        _end([int(path.read_text()) for path in pids if path.exists() and path.read_text().strip()])


def _until(condition, seconds: float) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)


def _end(pids: Sequence[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 5)


def _free_ports(count: int) -> list[int]:
    """Below those that the kernel gives to others, such as Ray in the tests' other processes."""
    first = 20_000 + os.getpid() * 16 % 12_000
    return list(islice(filter(_is_free, range(first, 32_768)), count))


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False
