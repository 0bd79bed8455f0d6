"""The repair environment as an agent meets it: its commands, its answers, its grading."""

import contextlib
import itertools
import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from made import played
from repair_samples import GOLD, WRONG, row, task

from turngrid.envs.environment import Rejected
from turngrid.envs.repair.commands import clean, edit, ls, replace, search, show
from turngrid.envs.repair.env import RepairEnv, Setup, goal_text
from turngrid.envs.repair.games import accept
from turngrid.envs.repair.grading import Options
from turngrid.envs.repair.instance import Instance, InstanceError
from turngrid.envs.repair.patches import diff
from turngrid.envs.repair.providers import InlineFiles
from turngrid.envs.repair.score import grade
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.sandbox.sandbox import prefix, sweep
from turngrid.envs.sandbox.types import Limits
from turngrid.envs.types import EnvError, InvalidAction

SETUP = Setup(show_lines=40, show_chars=2000)
FIX = "edit shop/calc.py 5-5\n    return a + b"
NO_REPLACE = "replace takes FILE: OLD => NEW, on one line."


@pytest.fixture
def env(tmp_path):
    made = RepairEnv(SETUP)
    made.reset(task(tmp_path, Instance.from_dict(row())), 0)
    yield made
    made.close()


def told(env, action):
    return env.step(action).observation.text


def test_the_first_observation_and_the_goal(tmp_path):
    instance = Instance.from_dict(row())
    env = RepairEnv(SETUP, legal=True)
    seen = env.reset(task(tmp_path, instance), 0)
    assert seen.text == "The repository shop/calc has: README.md  shop/  tests/"
    files = ("shop/__init__.py", "shop/calc.py", "tests/test_calc.py")
    assert seen.legal == ("ls", "test", *(f"show {file}" for file in files), "submit")
    assert goal_text(instance) == "add gives the difference of its arguments.\n\nIt should give their sum."
    env.close()


HOSTILE = (
    *(" ", "\u2003", "=>", " =>", ": ", "9", "9-", " 9", "a", ". ", "```", '"', "(", "lines ", "\n", "shop/calc.py: "),
)


def test_no_command_takes_long_to_read():
    """100 kB of the same, alone, behind a file's name, and with an end that does not fit."""
    lines = [unit * (100_000 // len(unit)) for unit in HOSTILE]
    texts = [(line, f"shop/calc.py {line}", f"shop/calc.py: {line}x", f"shop/calc.py: a {line} b") for line in lines]
    with Workspace(Instance.from_dict(row()), InlineFiles()) as place:
        readers = [
            *(clean, lambda text: clean(f"edit {text}"), lambda text: ls(place, text)),
            *(lambda text: show(place, text, 40), lambda text: search(place, text, 40)),
            *(lambda text: replace(place, text), lambda text: edit(place, text, ())),
        ]
        for text in itertools.chain(*texts):
            for read in readers:
                start = time.thread_time()
                with contextlib.suppress(InvalidAction):
                    read(text)
                assert time.thread_time() - start < 1, (read, text[:30])


def test_looking(env):
    assert told(env, "ls shop") == told(env, "ls ./shop/") == "__init__.py\ncalc.py"
    assert told(env, "ls") == told(env, "ls .") == told(env, "ls ./") == told(env, "ls /")
    assert told(env, "show shop/calc.py 4-5") == "shop/calc.py, lines 4-5 of 9:\n4| def add(a, b):\n5|     return a - b"
    assert told(env, "show shop/calc.py").startswith("shop/calc.py, lines 1-9 of 9:\n1| ")
    assert told(env, "search return a") == "shop/calc.py:5: return a - b\nshop/calc.py:9: return a * b"
    assert told(env, "search nonsense") == "nonsense is nowhere."


def test_what_cannot_be_done_is_said(env):
    for action, answer in (
        ("show calc.py", "There is no file calc.py. There is shop/calc.py."),
        ("show /etc/passwd", "Paths are those that ls shows, inside the repository."),
        ("show shop/calc.py 20-30", "shop/calc.py has 9 lines."),
        (f"show shop/calc.py {'9' * 5_000}", "shop/calc.py has 9 lines."),
        ("show shop/calc.py 1-3 9", "show takes a file and line numbers, such as show a.py 10-30."),
        ("ls nowhere", "There is no folder nowhere."),
        ("edit ../x.py 1-0\nx = 1", "../x.py cannot be a file of this repository."),
        ("edit /tmp/x.py 1-0\nx = 1", "/tmp/x.py cannot be a file of this repository."),
        ("edit shop 1-0\nx = 1", "shop cannot be a file of this repository."),
        ("edit shop/calc.py/x.py 1-0\nx = 1", "shop/calc.py/x.py cannot be a file of this repository."),
        ("edit .git/config 1-0\nx = 1", ".git/config cannot be a file of this repository."),
        ("edit ./shop/calc.py 9-20\nx = 1", "shop/calc.py has 9 lines; 9-20 is not among them."),
        (f"edit shop/calc.py 9-{'9' * 12}\nx", "shop/calc.py has 9 lines; 9-999999999 is not among them."),
        ("edit ./shop/new.py 3-4\nx = 1", "There is no file shop/new.py; a new one begins with edit shop/new.py 1-0."),
        ("replace ./shop/calc.py: return => x", "return stands 2 times in shop/calc.py; it must be there once."),
        ("replace", NO_REPLACE),
        (f"replace shop/calc.py:{' ' * 5_000}b", NO_REPLACE),
        ("replace shop/calc.py: => b", NO_REPLACE),
        ("replace shop/calc.py: a =>  => b", "a stands 5 times in shop/calc.py; it must be there once."),
        ("test tests/test_none.py", "There is no test file tests/test_none.py."),
        ("search", "search takes a text to look for."),
    ):
        result = env.step(action)
        assert (result.observation.text, result.valid, result.terminated) == (answer, False, False)
    assert not env.step("  \n ").valid
    unknown = env.step("rm -rf /")
    assert unknown.observation.text.startswith("That is not a command. Answer with one command: ls [DIR]")
    assert not unknown.valid


def test_running_tests(env):
    answer = told(env, "test")
    assert answer.startswith("2 of 3 tests passed.\nFAILED tests/test_calc.py::test_add\n  E   assert -1 == 3")
    assert told(env, "test tests/test_calc.py::test_mul") == "1 of 1 tests passed."
    told(env, "edit shop/calc.py 1-1\nnothing()")
    answer = told(env, "test")
    assert answer.startswith("0 of 0 tests passed.\nERROR tests/test_calc.py\n")
    assert "name 'nothing' is not defined" in answer
    broken = told(env, "edit shop/calc.py 5-5\n    return a +")
    assert "shop/calc.py is now broken: SyntaxError: invalid syntax (line 5)." in broken
    assert env.finish().info["tests"] == {"f2p_passed": 0, "f2p": 1, "p2p_passed": 0, "p2p": 2}


def test_editing(env):
    assert told(env, FIX) == (
        "Edited.\nshop/calc.py, lines 3-7 of 9:\n3| \n4| def add(a, b):\n5|     return a + b\n6| \n7| "
    )
    assert '1| x = 1\n2| """Sums."""' in told(env, "edit shop/calc.py 1-0\nx = 1")
    assert told(env, "edit shop/calc.py 1-1") == 'Edited.\nshop/calc.py, lines 1-2 of 9:\n1| """Sums."""\n2| '
    assert "9|     return b * a" in told(env, "replace shop/calc.py: a * b => b * a")


def test_a_repair_wins(env):
    told(env, FIX)
    result = env.step("submit")
    assert (result.won, result.lost, result.terminated, result.score_delta) == (True, False, True, 1.0)
    assert result.observation.text == ("Graded: 1 of 1 failing tests repaired, 0 of 2 passing tests broken (finished).")
    assert result.info["tests"] == {"f2p_passed": 1, "f2p": 1, "p2p_passed": 2, "p2p": 2}
    assert "-    return a - b\n+    return a + b" in result.info["patch"]
    assert result.info["sandbox"] in ("bubblewrap", "limits")
    with pytest.raises(EnvError, match="reset first"):
        env.step("ls")


@pytest.mark.parametrize(
    "place",
    ["tests/test_calc.py 1-1", "README.md 1-1", "shop/new.py 1-0", "test_calc/__init__.py 1-0", "conftest.py 1-0"],
)
def test_only_source_files_of_the_library_are_edited(env, place):
    """What is assumed of an untouched repository is so: nothing is run for it."""
    result = env.step(f"edit {place}\nx = 1")
    assert (result.valid, result.info) == (False, {"refused": "file"})
    assert result.observation.text == (
        f"{place.split()[0]} is not a source file of the library; a repair changes existing ones only. "
        "Nothing was changed."
    )
    last = env.step("submit")
    assert (last.won, last.terminated, last.score_delta, last.info["patch"]) == (False, True, 0.0, "")
    assert last.info["detail"] == "nothing was changed"
    with Workspace(Instance.from_dict(row()), InlineFiles()) as workspace:
        really = grade(workspace, Options())
    assert (really.to_info()["tests"], really.counts.ratio) == (last.info["tests"], 0.0)


def test_what_the_agents_test_runs_changed_is_not_graded():
    """Without walls a test run of the agent's may write into the checkout."""
    with Workspace(Instance.from_dict(row()), InlineFiles()) as workspace:
        broken = (workspace.base / "shop/calc.py").read_text()
        (workspace.base / "shop/calc.py").write_text(broken.replace("a - b", "a + b"))
        (workspace.base / "conftest.py").write_text("import os; os._exit(0)")
        with workspace.layers(graded=True) as (base, _):
            assert (base / "shop/calc.py").read_text() == broken and not (base / "conftest.py").exists()


def test_the_expert_plan_wins(tmp_path):
    """Also a longer one: new files, insertions, removals, several places and files."""
    lines = WRONG.split("\n")
    after = {
        "shop/calc.py": "\n".join(["import shop.names", *lines[3:4], "    return shop.names.plus(a, b)", *lines[5:]]),
        "shop/names.py": "def plus(a, b):\n\treturn a + b  # \\n stays\n\n",
        "README.md": "# Shop\nSums.\n",
    }
    patch = diff({path: text for path, text in row()["files"].items() if path in after}, after)
    longer = accept(Instance.from_dict(row(patch=patch)), tmp_path, SETUP).expert_plan
    assert len([command for command in longer if command.startswith("edit")]) == 4
    bare = Instance.from_dict(row(patch=""))
    assert accept(bare, tmp_path, SETUP).expert_plan == ()
    with pytest.raises(Rejected, match="cannot be demonstrated"):
        accept(bare, tmp_path, SETUP, demonstration=True)
    instance = Instance.from_dict(row())
    assert Instance.from_dict(instance.to_dict()) == instance
    assert (instance.meta, instance.test_files) == ({"patch_lines": 2, "tests": 3}, ("tests/test_calc.py",))
    record = accept(instance, tmp_path, SETUP, demonstration=True)
    assert record.expert_plan == ("show shop/calc.py 1-9", FIX, "submit")
    with contextlib.closing(RepairEnv(SETUP)) as env:
        results = played(env, task(tmp_path, instance, record.expert_plan))[1]
    assert [result.won for result in results] == [False, False, True]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"FAIL_TO_PASS": ["tests/test_calc.py::test_mul"]}, "1 of 1 FAIL_TO_PASS tests pass before the repair"),
        ({"PASS_TO_PASS": ["tests/test_calc.py::test_add"]}, "1 of 1 PASS_TO_PASS tests fail before the repair"),
        ({"files": {"a.py": ""}}, "no tests: the repository has none of the tests that it names"),
        ({"patch": GOLD.replace("    return a - b", "    return b")}, "the hunk at line 2 of .* does not fit"),
        ({"files": {}}, "carries no files"),
    ],
)
def test_what_is_no_task_is_rejected(tmp_path, change, reason):
    with pytest.raises(Rejected, match=reason):
        accept(Instance.from_dict(row(**change)), tmp_path, SETUP)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"repo": ""}, "shop__calc-1: field repo is missing or empty"),
        ({"FAIL_TO_PASS": []}, "shop__calc-1: FAIL_TO_PASS is missing or empty"),
        ({"FAIL_TO_PASS": "tests/a.py"}, "shop__calc-1: field FAIL_TO_PASS: JSON is malformed"),
        ({"PASS_TO_PASS": [1]}, "shop__calc-1: field PASS_TO_PASS: Expected `str`"),
        ({"instance_id": None}, "an instance without instance_id: field instance_id is missing or empty"),
        ({"files": {"../x": ""}}, r"shop__calc-1: files has the path '\.\./x', which leaves the repository"),
    ],
)
def test_an_instance_with_missing_fields_says_which(change, problem):
    with pytest.raises(InstanceError, match=problem) as caught:
        Instance.from_dict(row(**change))
    assert "\n" not in str(caught.value)


def test_what_an_action_is_taken_for():
    for action, command in {
        "\n\nshow a.py\x00 1-2\nsubmit": "show a.py 1-2",
        "search a\r\nsubmit\r\n": "search a",
        "```python\nedit a.py 1-2\n    x = 1\n\n    y\n```": "edit a.py 1-2\n    x = 1\n\n    y",
        "edit a.py 1-1\r\n\tx = 'é\\n'  \r\n": "edit a.py 1-1\n\tx = 'é\\n'  ",
        "```\n```": "",
    }.items():
        assert clean(action) == command


def test_observations_are_short(tmp_path):
    long = "\n".join(f"line_{number} = '{'x' * 50}'" for number in range(500)) + "\n"
    files = {**row()["files"], "long.py": long, "wide.py": "x" * 50_000}
    env = RepairEnv(Setup(show_lines=20, show_chars=1000))
    env.reset(task(tmp_path, Instance.from_dict(row(files=files))), 0)
    looks = ("show long.py", "show long.py 1-400", "search line_", "show wide.py")
    for action in (*looks, "edit long.py 1-1\n" + "y\n" * 400):
        shown = env.step(action).observation.text
        assert len(shown) < 1020
        assert len(shown.splitlines()) < 26
    assert env.step("show long.py 40-50").observation.text.startswith("long.py, lines 40-50 of ")
    env.close()


def folders():
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"{prefix()}*")}


def test_folders_of_killed_processes_are_swept(tmp_path, monkeypatch):
    """Where nobody of that number runs, and the number is one of ours."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place, ours = tmp_path, prefix()
    dead = place / ours.replace(f"-{os.getpid()}-", "-4194303-x")
    alive, others = place / f"{ours}x", place / "turngrid-1-4194303-x"
    for folder in (dead, alive, others):
        folder.mkdir()
    sweep()
    assert [folder.exists() for folder in (dead, alive, others)] == [False, True, True]


def open_files():
    """Of files by name, and pipes. Sockets and events are left out: other tests' Ray, in this
    process, opens them when it likes."""
    found = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return sorted(
        "pipe" if target.startswith("pipe:") else target
        for target in found
        if "socket:" not in target and "anon_inode:" not in target
    )


@pytest.mark.parametrize(
    ("commands", "warm", "times"),
    [(("show shop/calc.py", FIX), 100, 300), (("test", FIX, "submit"), 1, 3)],  # each run starts and ends a sandbox
    ids=["edits", "gradings"],
)
def test_many_episodes_leave_nothing_behind(tmp_path, commands, warm, times):
    """But for an open episode's folder; ``sweep`` removes that of a killed worker."""
    before, env = folders(), RepairEnv(SETUP)
    ref = task(tmp_path, Instance.from_dict(row()))

    def play(times):
        for _ in range(times):
            results = played(env, ref, commands)[1]
            assert results[-1].won or "submit" not in commands
            assert len(folders() - before) == ("submit" not in commands)

    play(warm)
    memory, files = psutil.Process().memory_info().rss, open_files()
    play(times)
    assert psutil.Process().memory_info().rss < 1.1 * memory
    assert open_files() == files
    env.close()
    assert folders() == before


def test_slow_tests_of_the_agent_are_ended(tmp_path):
    env = RepairEnv(Setup(40, 2000, options=Options(limits=Limits(wall_s=400.0, cpu_s=2.5))))
    env.reset(task(tmp_path, Instance.from_dict(row())), 0)
    told(env, "edit shop/calc.py 5-5\n    while True: pass")
    assert "The run did not end well: out of cpu time during tests/test_calc.py::test_add." in told(env, "test")
    result = env.step("submit")
    assert (result.info["outcome"], result.score_delta) == ("out_of_cpu_time", 0.0)
    assert result.info["tests"]["p2p_passed"] == 0  # they come after it, and did not finish
    env.close()
