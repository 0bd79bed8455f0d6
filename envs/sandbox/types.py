"""What a sandbox promises, what it allows, and how a command in it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SandboxError(RuntimeError):
    """No sandbox of the asked kind works on this machine, or the sandbox itself failed (never the command in it)."""


class Level(StrEnum):
    """How a command is kept apart, strongest first.

    ``BUBBLEWRAP``: separate network, processes, users and file tree. ``LIMITS``: time, memory,
    processes, file sizes and output are limited, but the command can read this user's files and
    reach the network. ``CONTAINER``: tests ran in a container of their own image, without network
    or privileges.
    """

    BUBBLEWRAP = "bubblewrap"
    LIMITS = "limits"
    CONTAINER = "container"


class Outcome(StrEnum):
    """How a command ended, and, for a run of tests, whether what it reported can be believed."""

    FINISHED = "finished"
    TIMED_OUT = "timed_out"
    OUT_OF_CPU_TIME = "out_of_cpu_time"
    OUT_OF_MEMORY = "out_of_memory"
    TOO_MANY_PROCESSES = "too_many_processes"
    TOO_MANY_FILES = "too_many_files"
    TOO_MUCH_OUTPUT = "too_much_output"
    KILLED = "killed"
    # Of runs of tests only:
    ENDED_EARLY = "ended_early"
    """The process was left (os._exit, a crash) before pytest had closed its report."""
    FORGED = "forged"
    """The report has a line that our runner did not sign."""
    TAMPERED = "tampered"
    """pytest, a test or the runner was changed while the tests ran, or a test that has to fail did not."""


@dataclass(frozen=True)
class Limits:
    """What one command may use. Sizes in MiB, times in seconds.

    ``memory_mib`` bounds the address space of each process and the resident memory of all of them; ``disk_mib`` each of
    the places that can be written (the work folder, ``/tmp`` and ``/dev/shm``), ``files`` the number of files in each,
    ``file_mib`` one file, ``open_files`` what all processes together hold open, ``output_mib`` what is printed.
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
    """``code`` is the exit status (128 + signal where a signal ended it, -1 where we did).

    ``stdout`` is what came by the command's standard output, ``stderr`` the first part of the rest.
    """

    outcome: Outcome
    code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    level: Level
