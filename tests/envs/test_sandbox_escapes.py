"""What a command may try, and how each try ends: at every level that this machine can build."""

import dataclasses
import os
import platform
import shutil
import socket
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import psutil
import pytest
import small

from turngrid.envs.sandbox import sandbox
from turngrid.envs.sandbox.types import Completed, Level, Limits, Outcome, SandboxError
from turngrid.envs.sandbox.walls import bubblewrap

ROOT = Path(__file__).parents[2]
QUICK = Limits(wall_s=100.0, cpu_s=20.0, memory_mib=512, processes=24, file_mib=4, disk_mib=16, output_mib=1)
WAYS = [*[Level.BUBBLEWRAP] * bubblewrap(), Level.LIMITS]
WALLED = [way for way in WAYS if way is not Level.LIMITS]
behind_walls = pytest.mark.parametrize("way", WALLED, ids=str)
everywhere = pytest.mark.parametrize("way", WAYS, ids=str)


@pytest.fixture(autouse=True)
def _works(way: Level) -> None:
    if way is not Level.LIMITS and sandbox.run(["true"], at=way).code:
        pytest.skip(f"this kernel refuses {way}")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one file, and a neighbour's beside it."""
    for name, text in (("mine", "mine"), ("theirs", "secret of another task")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.txt").write_text(text)
    return tmp_path / "mine"


def play(way: Level, code: str, repo: Path | None = None, limits: Limits = QUICK) -> Completed:
    script = textwrap.dedent(code)
    layers = [repo] if repo else []
    visible = sandbox.interpreter_paths()
    return sandbox.run([sys.executable, "-c", script], layers, limits=limits, visible=visible, at=way)


TRY = """
    def attempt(what):
        try:
            what()
            print("done")
        except Exception as error:
            print(type(error).__name__)
"""


def attempts(way: Level, lines: str, repo: Path | None = None) -> list[str]:
    done = play(way, textwrap.dedent(TRY) + textwrap.dedent(lines), repo)
    assert done.outcome is Outcome.FINISHED, done
    return done.stdout.decode().split()


def none_left(mark: str) -> None:
    """The kernel takes a moment to end a namespace."""
    small.wait_for(lambda: not running(mark), 60)


def running(mark: str) -> list[list[str]]:
    """Command lines with a word in them."""
    found = (one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"]) if one.pid != os.getpid())
    return [line for line in found if mark in " ".join(line)]


@everywhere
def test_a_command_works_in_a_copy_of_its_folder(way, repo):
    code = "print(open('file.txt').read()); open('file.txt', 'w').write('changed'); print(1, file=open('n', 'w'))"
    done = play(way, code, repo)
    assert (done.outcome, done.code, done.stdout) == (Outcome.FINISHED, 0, b"mine\n")
    assert [path.name for path in repo.iterdir()] == ["file.txt"]
    assert (repo / "file.txt").read_text() == "mine"
    assert play(way, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").outcome is Outcome.KILLED
    ended = play(way, "raise SystemExit(3)")
    assert (ended.outcome, ended.code) == (Outcome.FINISHED, 3)


@behind_walls
def test_writing_outside_is_refused(way, repo, tmp_path):
    outside = ["/usr/lib/evil", "/etc/evil", "/evil", f"{sys.prefix}/evil"]
    places = [*outside, "/proc/sys/kernel/core_pattern", "/layers/0/file.txt"]
    lines = "".join(f"attempt(lambda: open({place!r}, 'w').write('x'))\n" for place in places)
    assert "done" not in attempts(way, lines, repo)
    assert (repo / "file.txt").read_text() == "mine"
    assert not any(Path(place).exists() for place in outside)


@behind_walls
def test_another_tasks_files_cannot_be_read_by_path_or_by_link(way, repo, tmp_path):
    theirs, home = tmp_path / "theirs/file.txt", Path.home() / ".bashrc"
    (repo / "given").symlink_to(tmp_path / "theirs")
    lines = "".join(f"attempt(lambda: open({str(path)!r}).read())\n" for path in (theirs, home, ROOT / "README.md"))
    lines += f"""import os
attempt(lambda: os.listdir({str(tmp_path)!r}))
os.symlink({str(theirs)!r}, "made")
attempt(lambda: open("made").read())
attempt(lambda: open("given/file.txt").read())
attempt(lambda: open("made", "w").write("x"))
attempt(lambda: os.link({str(theirs)!r}, "hard"))
"""
    assert "done" not in attempts(way, lines, repo)
    assert theirs.read_text() == "secret of another task"


@behind_walls
def test_there_is_no_network(way):
    """Abstract sockets have no file: only a network of one's own keeps them apart."""
    name = f"\0turngrid-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(name)
        local.listen()
        server.settimeout(0.2)
        port = server.getsockname()[1]
        lines = f"""
        import socket
        attempt(lambda: socket.create_connection(("127.0.0.1", {port}), 2))
        attempt(lambda: socket.create_connection(("192.0.2.1", 80), 2))
        attempt(lambda: socket.getaddrinfo("example.org", 80))
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        attempt(lambda: s.sendto(b"x", ("192.0.2.1", 53)))
        attempt(lambda: socket.socket(socket.AF_UNIX).connect({name!r}))
        """
        assert "done" not in attempts(way, textwrap.dedent(lines))
        with pytest.raises(TimeoutError):
            server.accept()


@behind_walls
def test_other_processes_cannot_be_seen_or_killed(way):
    """It may end what is in the sandbox with it, which is only itself."""
    lines = f"""
    import os, signal
    attempt(lambda: os.kill({os.getpid()}, signal.SIGKILL)) if {os.getpid()} > 300 else print("ProcessLookupError")
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    print("few" if len(pids) < 8 else pids)
    """
    assert attempts(way, lines) == ["ProcessLookupError", "few"]
    done = play(way, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)")
    assert done.outcome in (Outcome.FINISHED, Outcome.KILLED)
    assert play(way, "open('/tmp/note', 'w'), open('note', 'w')").code == 0
    lines = "attempt(lambda: open('/tmp/note'))\nattempt(lambda: open('note'))"
    assert attempts(way, lines) == ["FileNotFoundError"] * 2  # no trace is left for the next run


@everywhere
def test_a_fork_bomb_is_put_out(way):
    """Without walls the children sleep: a bomb that doubles takes the machine from other tests for
    20 s before our watch sees it."""
    mark = f"bomb-{os.getpid()}-{way}"
    fork = "os.fork()" if way is Level.BUBBLEWRAP else "os.fork() or time.sleep(600)"
    bomb = f"import os, time\ntry:\n    while True: {fork}\nexcept OSError: time.sleep(0.3)"
    done = play(way, f"mark = {mark!r}\n{bomb}", limits=Limits(wall_s=60.0, processes=24))
    assert done.outcome is (Outcome.FINISHED if way is Level.BUBBLEWRAP else Outcome.TOO_MANY_PROCESSES)
    none_left(mark)


# What takes too much, and would not end by itself -> its limits, and how it is ended.
TOO_MUCH = {
    "for _ in range(6):\n    if os.fork() == 0: block = bytearray(b'x' * (150 << 20)); break\ntime.sleep(600)": (
        QUICK, Outcome.OUT_OF_MEMORY
    ),
    "for number in range(150_000): open(f'{number}', 'w').close()": (
        dataclasses.replace(QUICK, files=2_000), Outcome.TOO_MANY_FILES
    ),
    # what is held open counts for all processes: each socket may have hundreds of KiB of the
    # kernel's memory in it
    "for _ in range(5):\n"
    "    if os.fork() == 0: held = [socket.socketpair() for _ in range(200)]; break\n"
    "time.sleep(600)": (
        QUICK, Outcome.TOO_MANY_FILES
    ),
    "time.sleep(600)": (Limits(wall_s=1.0), Outcome.TIMED_OUT),
    "while True: pass": (Limits(wall_s=200.0, cpu_s=1.0), Outcome.OUT_OF_CPU_TIME),
    "while True: print('x' * 10000)": (QUICK, Outcome.TOO_MUCH_OUTPUT),
}  # fmt: skip


@everywhere
@pytest.mark.parametrize("code", TOO_MUCH)
def test_a_command_that_takes_too_much_is_ended(way, repo, code):
    limits, outcome = TOO_MUCH[code]
    if way is Level.LIMITS and limits.files < QUICK.files:
        pytest.skip("files are counted behind walls")
    done = play(way, f"import os, socket, time\n{code}", repo, limits)
    assert done.outcome is outcome
    assert done.code == -1 or outcome is Outcome.OUT_OF_CPU_TIME  # the kernel's own signal
    assert len(done.stdout) < 4 << 20


# What is tried in the walls' folder, and what comes of it.
ANYWHERE = {
    # of 1.6 GiB where 512 MiB are allowed, nothing is left that no process is seen to have; memory
    # of one's own still is
    """
    import ctypes, mmap, os
    libc = ctypes.CDLL(None)
    def segment(call, *arguments):
        if getattr(libc, call)(0, *arguments, 0o1600) < 0: raise OSError
    attempt(lambda: os.memfd_create("x"))
    attempt(lambda: segment("shmget", 1 << 20))
    attempt(lambda: segment("semget", 1))
    attempt(lambda: segment("msgget"))
    attempt(lambda: mmap.mmap(-1, 1 << 20))
    attempt(lambda: mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE))
    """: ["OSError"] * 4 + ["PermissionError", "done"],
    # sockets' buffers could hold megabytes each, in the kernel; programs that ask are told that it
    # is done
    """
    import socket
    one, _ = socket.socketpair()
    before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
    after = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF), one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    print(before == after)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    print(one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    """: ["True", "1"],
    "attempt(lambda: open('big', 'wb').write(b'x' * (8 << 20)))\nattempt(lambda: bytearray(1 << 30))": [
        *("OSError", "MemoryError")
    ],
}
# No user namespace gives rights inside it, by each of the three calls that make one; 56 and 435 are
# clone and clone3, which takes its flags from memory. The numbers are those of x86_64.
NAMESPACES = """
    import ctypes, subprocess
    libc = ctypes.CDLL(None)
    def made(number):
        if number < 0: raise PermissionError
    attempt(lambda: made(libc.unshare(0x10000000)))
    attempt(lambda: made(libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)))
    attempt(lambda: made(libc.syscall(435, (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17), 88)))
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/tmp"]
    print(subprocess.run(command, stderr=subprocess.DEVNULL).returncode)
"""
ANYWHERE |= {NAMESPACES: ["PermissionError"] * 3 + ["1"]} if platform.machine() == "x86_64" else {}
WITHIN_WALLS = {
    """
    def fill():
        for number in range(64):
            for folder in (".", "/tmp", "/dev/shm"):
                open(f"{folder}/{number}", "wb").write(b"x" * (1 << 20))
    attempt(fill)
    """: ["OSError"],
    """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    def mount():
        if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None): raise PermissionError
    attempt(mount)
    def chroot(): os.chroot("/tmp")
    attempt(chroot)
    attempt(lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(8, 0)))
    attempt(lambda: os.sethostname(b"x")) if hasattr(os, "sethostname") else print("PermissionError")
    caps = [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapPrm", "CapBnd"))]
    print("none" if set(caps) == {"0" * 16} else caps)
    """: ["PermissionError"] * 4 + ["none"],
    # a shared mapping of /dev/zero is one of no file; /dev itself would be a disk without a limit
    "attempt(lambda: open('/dev/zero', 'rb'))\nattempt(lambda: open('/dev/file', 'w'))": ["PermissionError", "OSError"],
}


@pytest.mark.parametrize(("way", "row"), [*product(WAYS, ANYWHERE.items()), *product(WALLED, WITHIN_WALLS.items())])
def test_what_is_refused(way, repo, row):
    assert attempts(way, row[0], repo) == row[1]


@everywhere
def test_a_daemon_does_not_outlive_the_run(way):
    mark = f"daemon-{os.getpid()}-{way}"
    code = f"""
    import os, sys, time
    mark = {mark!r}
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            sys.stdout.close(); os.close(2)
            time.sleep(600)
        os._exit(0)
    time.sleep(0.2)
    """
    assert play(way, code).outcome is Outcome.FINISHED
    none_left(mark)


@everywhere
def test_nothing_of_our_environment_is_inherited(way, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "a secret")
    done = play(way, "import os; print(sorted(os.environ), len(os.listdir('/proc/self/fd')))")
    names, _, files = done.stdout.decode().rpartition(" ")
    assert "HF_TOKEN" not in names
    assert "PYTHONPATH" not in names
    assert int(files) <= 4  # the three streams, and the folder being listed


@behind_walls
def test_runs_side_by_side_are_counted_alone(way):
    """Each run has its own count of processes, and does not see the others'."""
    code = """
    import subprocess, time
    held = [subprocess.Popen(["sleep", "1"]) for _ in range(12)]
    time.sleep(1)
    print(len(held))
    """
    with ThreadPoolExecutor() as threads:
        assert [run.stdout for run in threads.map(lambda _: play(way, code), range(3))] == [b"12\n"] * 3


SLEEP = "import time; time.sleep(600)"
OWNER = """
import sys
from turngrid.envs.sandbox import sandbox
from turngrid.envs.sandbox.types import Level
way = Level(sys.argv[1])
sandbox.run([sys.executable, "-c", sys.argv[3], sys.argv[2]], visible=sandbox.interpreter_paths(), at=way)
"""


def inside(mark: str) -> bool:
    """Whether the command itself runs, within its walls, which have the word in their lines too."""
    return any(line[2:3] == [SLEEP] for line in running(mark))


@everywhere
def test_a_sandbox_ends_with_its_owner(way):
    """A worker that is killed leaves nothing running."""
    mark = f"owned-{os.getpid()}-{way}"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", OWNER, way, mark, SLEEP]
    owner = subprocess.Popen(command, env=env)
    small.wait_for(lambda: inside(mark), 120)
    owner.kill()
    owner.wait()
    none_left(mark)


PLAIN_USER = """
import sys
if sys.version_info < (3, 11): sys.exit("ModuleNotFoundError")
from turngrid.envs.sandbox import sandbox
from turngrid.envs.sandbox.types import Limits
tries = "cat /root/x %s; touch /usr/evil; unshare --user echo free; echo alive"
done = sandbox.run(["sh", "-c", tries], at=sandbox.level(), limits=Limits(wall_s=100))
print(done.code, done.stdout, done.outcome)
"""


@pytest.mark.parametrize("way", [Level.LIMITS], ids=["plain-user"])
def test_a_user_without_privileges_gets_the_same_walls(way, repo):
    """As root we are more than most users are; run it all once as one who is nothing."""
    system = shutil.which("python3", path="/usr/bin")
    if os.geteuid() or not system or not shutil.which("setpriv"):
        pytest.skip("needs root and the system's Python, to become somebody else")
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    command = [*drop, system, "-B", "-c", PLAIN_USER % (repo.parent / "theirs/file.txt")]
    done = subprocess.run(
        command, cwd="/", env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}, capture_output=True, check=False
    )
    if b"ModuleNotFoundError" in done.stderr:
        pytest.skip("the system's Python is too old, or this checkout cannot be read by others")
    assert done.stdout == b"0 b'alive\\n' finished\n"


@behind_walls
@pytest.mark.parametrize("content", ['exec {real} "$@"', "exit 1", None], ids=["works", "fails", "no program"])
def test_bubblewrap_is_started_where_it_was_found(way, tmp_path, monkeypatch, content):
    """In a folder that commands do not look into, as conda and nix have it; one that does not start
    is an error."""
    started, tool = tmp_path / "started", tmp_path / "bin/bwrap"
    tool.parent.mkdir()
    body = f"#!/bin/sh\ntouch {started}\n{content.format(real=shutil.which('bwrap'))}\n" if content else "no program"
    tool.write_text(body)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    monkeypatch.setattr(sandbox, "level", sandbox.level.__wrapped__)
    if content and "exec" in content:
        assert sandbox.level("auto") is Level.BUBBLEWRAP
    else:
        with pytest.raises(SandboxError, match="bubblewrap.*env.sandbox=limits"):
            sandbox.level("auto")
    assert started.exists() is bool(content)


@pytest.mark.parametrize("way", [Level.LIMITS], ids=["modes"])
def test_modes(way, monkeypatch):
    assert sandbox.level("limits") is Level.LIMITS
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: None)
    with pytest.raises(SandboxError, match="Debian package bubblewrap.*env.sandbox=limits"):
        sandbox.level.__wrapped__("auto")
