"""Levels and limits of a sandbox, and outcomes of commands."""

from dataclasses import dataclass
from enum import StrEnum

from turngrid.envs.types import EnvError


class SandboxError(EnvError):
    """The sandbox does not work on this machine, or failed; never an error of the command."""


class Level(StrEnum):
    """Isolation of a command, strongest first.

    ``BUBBLEWRAP``: separate network, processes, users and file tree. ``LIMITS``: time, memory,
    processes, file sizes and output are limited, but the command can read this user's files and
    reach the network. ``CONTAINER``: tests ran in a container of their own image, without network
    or privileges.
    """

    BUBBLEWRAP = "bubblewrap"
    LIMITS = "limits"
    CONTAINER = "container"


class Outcome(StrEnum):
    """End of a command, which decides whether the report of a test run can be believed."""

    FINISHED = "finished"
    TIMED_OUT = "timed_out"
    OUT_OF_CPU_TIME = "out_of_cpu_time"
    OUT_OF_MEMORY = "out_of_memory"
    TOO_MANY_PROCESSES = "too_many_processes"
    TOO_MANY_FILES = "too_many_files"
    TOO_MUCH_OUTPUT = "too_much_output"
    KILLED = "killed"
    # of test runs only:
    ENDED_EARLY = "ended_early"
    """The process ended (os._exit, a crash) before pytest had closed its report."""
    FORGED = "forged"
    """The report has a line that the runner did not sign."""
    TAMPERED = "tampered"
    """pytest, a test or the runner was changed, or a test that must fail passed."""
    REFUSED = "refused"
    """The tests were not run: the change has what no repair may have."""


@dataclass(frozen=True)
class Limits:
    """Limits of one command; sizes in MiB, times in seconds.

    Attributes:
        memory_mib: address space of each process, and resident memory of all.
        file_mib: size of one file.
        files: number of files in ``/repo``, ``/tmp`` and ``/dev/shm`` each, behind walls.
        open_files: open files of all processes.
        disk_mib: size of each writable folder.
        output_mib: printed text.
    """

    wall_s: float = 30.0
    cpu_s: float = 30.0
    memory_mib: int = 2048
    processes: int = 64
    file_mib: int = 64
    files: int = 50_000
    open_files: int = 1024
    disk_mib: int = 512
    output_mib: int = 8


@dataclass(frozen=True)
class Completed:
    """A command that ended.

    Attributes:
        code: exit status; 128 + a signal's number; -1 if the sandbox ended the command.
    """

    outcome: Outcome
    code: int
    stdout: bytes
    stderr: bytes
