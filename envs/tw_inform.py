"""TextWorld's story source to a Z-machine story file: the same file as TextWorld's own way, in 0.6 of its CPU seconds.

Inform 7's compiler ``ni`` takes most of the time of a game. TextWorld's way to call it writes an index of some hundred HTML files that
nobody reads, and 40 % of what then remains is one system call: ``ni`` asks a million times a game what time it is, to give
up on a sentence that takes it long. Here ``LONGEST_S`` ends it then.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from textworld.generator.inform7 import CouldNotCompileGameError
from textworld.generator.inform7.world2inform7 import I7_DEFAULT_PATH

from envs.parent import binder, die_with_parent

LONGEST_S = 100  # of either compiler, which take 1 s on one core; both within ``Environment.longest_making_s``
NOT_STARTED = (126, 127)  # the binder's exit code where the system cannot run what it was given

# What is changed in the compiler, a program for x86-64: the bytes that are there, those in their place, and how often.
_CHANGES = (
    # time() of its C library: mov eax, 201; syscall. In its place: mov eax, 0; two of no operation.
    (bytes.fromhex("b8c90000000f05c3"), bytes.fromhex("b8000000009090c3"), 1),
    # mmap's flags, mov ecx, 34: with MAP_POPULATE the system hands out 400 KB at once, which are used, not in a hundred interrupts.
    (bytes.fromhex("b922000000ba03000000"), bytes.fromhex("b922800000ba03000000"), 5),
)


def compile_story(source: str, story: Path) -> None:
    """Write ``story`` (.z8). What the compilers write besides is beside it until they are done, or have refused.

    Raises:
        CouldNotCompileGameError: a compiler refused (the message ends with what it printed) or took longer than ``LONGEST_S``.
    """
    project = story.with_name("inform")
    try:
        _compile(source, project, story)
    finally:
        shutil.rmtree(project, ignore_errors=True)


def _compile(source: str, project: Path, story: Path) -> None:
    home = Path(os.environ.get("INFORM_HOME", I7_DEFAULT_PATH), "share", "inform7")
    (project / "Source").mkdir(parents=True)
    (project / "Build").mkdir()
    (project / "uuid.txt").touch()
    (project / "Source" / "story.ni").write_text(source, encoding="utf-8")
    ni, passed = quick_compiler(home / "Compilers" / "ni")
    options = ["--noindex", "--noprogress", "--internal", str(home / "Internal"), "--format=.z8"]
    _run([ni, *options, "--project", str(project)], passed)
    _run([str(home / "Compilers" / "inform6"), "-E2wSv8F0", str(project / "Build" / "auto.inf"), str(story)])


@functools.cache
def quick_compiler(ni: Path) -> tuple[str, tuple[int, ...]]:
    """A command for Inform 7's compiler, with the files to hand to it: a copy in memory with the changes above, or ``ni`` itself
    where it is another compiler than the one known or such a copy cannot be run."""
    program = ni.read_bytes()
    if any(program.count(there) != times for there, _, times in _CHANGES) or not hasattr(os, "memfd_create"):
        return str(ni), ()
    for there, instead, _ in _CHANGES:
        program = program.replace(there, instead)
    try:
        copy = os.memfd_create("ni")
    except OSError:  # the system forbids it
        return str(ni), ()
    with open(copy, "wb", closefd=False) as file:
        file.write(program)
    command = f"/proc/self/fd/{copy}"
    try:
        subprocess.run([command, "--nothing"], check=False, pass_fds=(copy,), capture_output=True)
    except OSError:  # or this
        os.close(copy)
        return str(ni), ()
    return command, (copy,)


def _run(command: list[str], passed: tuple[int, ...] = ()) -> None:
    if not shutil.which(command[0]):  # else the binder's exit code would look like a refused story
        raise FileNotFoundError(f"{command[0]} cannot be run")
    try:
        done = subprocess.run(
            [*binder(), *command],
            check=False,
            pass_fds=passed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_S,
            preexec_fn=None if binder() else die_with_parent,
        )
    except subprocess.TimeoutExpired as late:  # it has been killed
        raise CouldNotCompileGameError(f"{command[0]} took more than {LONGEST_S} s") from late
    if done.returncode in NOT_STARTED:
        raise OSError(f"{command[0]} cannot be run: {done.stdout.decode().strip()}")
    if done.returncode:
        raise CouldNotCompileGameError(f"{command[0]} ended with {done.returncode}:\n{done.stdout.decode()}")
