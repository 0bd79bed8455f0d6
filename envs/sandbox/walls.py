"""The command lines that isolate a command, by level.

At every level the command starts in a private copy of its folder, with an empty ``/tmp`` and a bare
environment. With bubblewrap it sees only the system's programs, the interpreter and that copy.
"""

import os
import random
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from turngrid.envs.sandbox import seccomp
from turngrid.envs.sandbox.types import Level, Limits

REPO = "/repo"
WRITABLE = ("/tmp", "/dev/shm", REPO)
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("ld.so.cache", "alternatives", "localtime", "mime.types", "nsswitch.conf")
_UIDS = range(40_000, 60_000)  # above every account of a usual machine, and mapped in most containers
_FILTER = "filter"
_NO_PRIVILEGES = ("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all")


def command(
    level: Level, argv: Sequence[str], layers: Sequence[Path], visible: Sequence[Path], limits: Limits, scratch: Path
) -> list[str]:
    """Return the command line that isolates a command.

    Args:
        layers: folders, copied over each other to make the command's folder.
        visible: paths that the command may read.
        scratch: an empty folder of this run.
    """
    if level is Level.LIMITS:
        ends = ["setpriv", "--pdeathsig", "KILL"] if _tool_path("setpriv") else []
        return [*seccomp.launcher(), *ends, *_start(argv, [*map(str, layers)], limits, count=False)]
    inside = [f"/layers/{number}" for number in range(len(layers))]
    user = str(random.SystemRandom().choice(_UIDS))  # another in each run: its processes are counted alone
    # root could write to /proc/sys behind any walls, and its processes would not be counted
    drop = ["--reuid", user, "--regid", user, "--clear-groups"] if os.geteuid() == 0 else []
    start = ["setpriv", *drop, *_NO_PRIVILEGES, *_start(argv, inside, limits, count=True)]
    binds = [*((path, str(path)) for path in _readable(visible)), *zip(layers, inside, strict=True)]
    return _bubblewrap(start, binds, limits, scratch)


def bubblewrap() -> bool:
    """Return whether this machine has ``bwrap`` and ``setpriv``."""
    return bool(_tool_path("bwrap") and _tool_path("setpriv"))


def _tool_path(tool: str) -> str | None:
    """Return a tool's path: in the commands' PATH, or for bubblewrap in the user's (conda, nix)."""
    if tool != "bwrap":
        return shutil.which(tool, path=_PATH)
    path = shutil.which(tool) or shutil.which(tool, path=_PATH)
    return os.path.abspath(path) if path else None


def environment(home: str) -> dict[str, str]:
    """Return all environment variables of a command; it inherits none."""
    return {
        "PATH": _PATH,
        "HOME": home,
        "TMPDIR": home,
        "USER": "agent",
        "LOGNAME": "agent",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


def _start(argv: Sequence[str], layers: Sequence[str], limits: Limits, *, count: bool) -> list[str]:
    """Return a script that copies the layers, sets the limits, and becomes the command.

    Args:
        count: limit processes; without walls, ``ulimit`` would count all of this user's.
    """
    kib, cpu = 1024, max(1, round(limits.cpu_s))
    script = [
        "set -e",
        *(f"cp -RP {shlex.quote(layer)}/. ." for layer in layers),
        f"ulimit -S -t {cpu}; ulimit -H -t {cpu + 1}",  # SIGXCPU a second before SIGKILL, to tell the reason
        f"ulimit -c 0; ulimit -v {limits.memory_mib * kib}",
        f"ulimit -f {limits.file_mib * kib * 2}; ulimit -n 512",  # -f counts blocks of 512 bytes
        f"(ulimit -u 1) 2>/dev/null && ulimit -u {limits.processes} || ulimit -p {limits.processes}" if count else ":",
        'exec "$@"',
    ]
    return ["sh", "-c", "\n".join(script), "sh", *argv]


def _readable(visible: Sequence[Path]) -> list[Path]:
    """Return existing paths of ``_ETC`` and ``visible`` outside /usr, outermost first."""
    wanted = [*(Path("/etc") / name for name in _ETC), *(path.absolute() for path in visible)]
    kept = [path for path in wanted if path.exists() and not path.is_relative_to("/usr")]
    return sorted(dict.fromkeys(kept), key=lambda path: len(path.parts))


def _tree(binds: list[tuple[Path, str]], limits: Limits) -> list[str]:
    """Return the options for the file system that the command sees."""
    tree: list[str] = []
    for path in _SYSTEM:  # a folder, or a link such as /bin -> usr/bin
        if os.path.islink(path):
            tree += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            tree += ["--ro-bind", path, path]
    tree += ["--proc", "/proc", "--dev", "/dev"]
    tree += ["--ro-bind", "/dev/null", "/dev/zero"]  # shared mappings of zero are memory that is not counted
    for path in WRITABLE:
        tree += ["--perms", "1777", "--size", str(limits.disk_mib << 20), "--tmpfs", path]
    for above in dict.fromkeys(folder for _, target in binds for folder in reversed(Path(target).parents)):
        tree += ["--perms", "0755", "--dir", str(above)]  # bubblewrap's own folders would be closed to other users
    for source, target in binds:
        tree += ["--ro-bind", str(source), target]
    return tree


def _bubblewrap(start: list[str], binds: list[tuple[Path, str]], limits: Limits, scratch: Path) -> list[str]:
    apart = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    user = [] if os.geteuid() == 0 else ["--unshare-user"]
    ends = ["--die-with-parent", "--new-session"]
    closed = ["--remount-ro", "/dev", "--remount-ro", "/"]
    code = seccomp.program() if seccomp.available() else b""
    (scratch / _FILTER).write_bytes(code)  # bubblewrap reads it
    filtered = ["--seccomp", "9"] if code else []
    command = [_tool_path("bwrap") or "bwrap", *filtered, *apart, *user, *ends, *_tree(binds, limits), *closed]
    return ["sh", "-c", 'exec "$@" 9< "$0"', str(scratch / _FILTER), *command, "--chdir", REPO, "--", *start]
