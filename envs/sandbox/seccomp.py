"""A seccomp filter: no uncounted memory, no user namespaces.

Memory that belongs to no process (memfds, System V segments, shared anonymous mappings, pages lent
to a pipe) is in no process's count, so a command could take all of the machine's. A user namespace
gives its maker all rights inside it, mounts included. Children inherit the filter.

As a script (``python -I -S seccomp.py COMMAND ...``) this file applies the filter and becomes the
command. It imports nothing of turngrid.
"""

import ctypes
import errno
import functools
import os
import struct
import sys
from pathlib import Path

_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # the kernel's names of their calling conventions

# Numbers of calls, on x86_64 and on aarch64, that fail as if the kernel did not know them; clone3
# because a filter cannot read its flags.
_UNKNOWN = {
    "clone3": (435, 435),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "vmsplice": (278, 75),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
}

# A refused call: its two numbers; of some arguments the index, a mask and the masked value; the
# error (0: reported as done).
_Rule = tuple[tuple[int, int], tuple[tuple[int, int, int], ...], int]
_SHARED_ANONYMOUS, _NEW_USER, _ALL = 0x21, 0x10000000, 0xFFFFFFFF
_RULES: tuple[_Rule, ...] = (
    ((9, 222), ((3, _SHARED_ANONYMOUS, _SHARED_ANONYMOUS),), errno.EPERM),  # mmap
    ((54, 208), ((1, _ALL, 1), (2, _ALL, 7)), 0),  # setsockopt SO_SNDBUF
    ((54, 208), ((1, _ALL, 1), (2, _ALL, 8)), 0),  # setsockopt SO_RCVBUF
    ((56, 220), ((0, _NEW_USER, _NEW_USER),), errno.EPERM),  # clone
    ((272, 97), ((0, _NEW_USER, _NEW_USER),), errno.EPERM),  # unshare
)

# Instructions, and offsets in the kernel's struct seccomp_data.
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_CALL, _CONVENTION, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # x86_64 has all calls a second time from this number on
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2


def available() -> bool:
    """Return whether the kernel has seccomp and this machine's calls are listed here."""
    return os.uname().machine in _MACHINES and _ACTIONS.exists()


@functools.cache
def program() -> bytes:
    """Return the filter in the kernel's format."""
    machine = os.uname().machine
    column = list(_MACHINES).index(machine)
    lines = [
        (_LOAD, 0, 0, _CONVENTION),
        (_IF_EQUAL, 1, 0, _MACHINES[machine]),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_LOAD, 0, 0, _CALL),
        (_IF_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    for numbers in _UNKNOWN.values():
        lines += [(_IF_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    for numbers, where, answer in _RULES:
        lines += _refuse(numbers[column], where, answer)
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _refuse(number: int, where: tuple[tuple[int, int, int], ...], answer: int) -> list[tuple[int, int, int, int]]:
    """Return instructions that begin and end with the call's number loaded.

    The lower half of an argument is compared (little endian).
    """
    lines = [(_IF_EQUAL, 0, 3 * len(where) + 2, number)]
    for left, (argument, mask, value) in zip(reversed(range(len(where))), where, strict=True):
        lines += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_AND, 0, 0, mask), (_IF_EQUAL, 0, 3 * left + 1, value)]
    return [*lines, (_RETURN, 0, 0, _ERROR | answer), (_LOAD, 0, 0, _CALL)]


def launcher() -> list[str]:
    """Return the command prefix that applies the filter; [] if this kernel has no seccomp."""
    return [sys.executable, "-I", "-S", __file__] if available() else []


def take(code: bytes) -> None:
    """Put this process under a filter, for good.

    Raises:
        OSError: the kernel refuses it.
    """

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
    held = Program(len(code) // 8, code)
    if prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(_SET_SECCOMP, _FILTER, ctypes.addressof(held), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refuses the filter")


if __name__ == "__main__":
    take(program())
    os.execvp(sys.argv[1], sys.argv[1:])
