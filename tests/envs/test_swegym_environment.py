"""env=swegym: instance files as others publish them, repositories from three places, and what is
skipped and why."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from repair_samples import GOLD, RIGHT, TESTS, WRONG, row

from turngrid.envs.extensions import shipped
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.providers import ContainerImage, GitMirror, InlineFiles, ProviderError, engine
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.swegym.environment import difficulty
from turngrid.envs.types import TaskError

OLD_TESTS = TESTS.replace("def test_add():\n    assert add(1, 2) == 3\n\n\n", "")
TEST_PATCH = """--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -1,5 +1,9 @@
 from shop.calc import add, mul


+def test_add():
+    assert add(1, 2) == 3
+
+
 def test_add_none():
     assert add(2, 0) == 2
"""


def git(folder: Path, *arguments: str) -> str:
    about = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(
        ["git", "-C", folder, *about, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def mirror(tmp_path: Path) -> tuple[Path, str]:
    """A folder of mirrors with shop/calc in it, and the commit at which it is broken."""
    work = tmp_path / "work"
    files = {"shop/__init__.py": "", "shop/calc.py": WRONG, "tests/test_calc.py": OLD_TESTS, "link": None}
    for path, text in files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text) if text is not None else (work / path).symlink_to("/etc/passwd")
    git(work, "init", "-q")
    git(work, "add", ".")
    git(work, "commit", "-qm", "broken")
    broken = git(work, "rev-parse", "HEAD")
    (work / "shop/calc.py").write_text(RIGHT)
    git(work, "commit", "-qam", "repaired")
    mirrors = tmp_path / "mirrors"
    mirrors.mkdir()
    subprocess.run(
        ["git", "clone", "-q", "--mirror", work, mirrors / "shop__calc.git"], check=True, capture_output=True
    )
    return mirrors, broken


def of_git(commit: str, **changes: object) -> dict[str, object]:
    return row(base_commit=commit, files={}, test_patch=TEST_PATCH, **changes)


def write_rows(path: Path, rows: list[object]) -> str:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in rows) + "\n")
    return str(path)


def listing(
    tmp_path: Path, settings: dict[str, object], task: str = "all", split: str = "train", count: int | None = None
):
    catalogue = Catalogue(make_environment("swegym", settings), tmp_path / "cache")
    return catalogue.listing(task, split, count, reward="ratio", workers=1, progress=False)


def test_a_mirror_gives_the_commit_and_nothing_outside_of_it(mirror):
    mirrors, broken = mirror
    instance = Instance.from_dict(of_git(broken))
    with Workspace(instance, GitMirror(mirrors)) as workspace:
        assert workspace.paths == ["shop/__init__.py", "shop/calc.py", "tests/test_calc.py"]
        assert workspace.text("shop/calc.py") == WRONG
        with pytest.raises(KeyError):
            workspace.text("link")
        with pytest.raises(ValueError, match="link leaves the repository"):
            workspace.write("link", "x")
        assert not (workspace.base / ".git").exists()


@pytest.mark.parametrize("name", ["shop__calc", "shop/calc", "shop/calc.git"])
def test_a_mirror_may_have_any_of_the_usual_names(mirror, name):
    mirrors, broken = mirror
    (mirrors / name).parent.mkdir(exist_ok=True)
    (mirrors / "shop__calc.git").rename(mirrors / name)
    with Workspace(Instance.from_dict(of_git(broken)), GitMirror(mirrors)) as workspace:
        assert workspace.text("shop/calc.py") == WRONG


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"base_commit": "f" * 40}, "has no commit ffff"),
        ({"base_commit": "--output=x"}, "has no commit --output"),
        ({"repo": "shop/other"}, "no mirror of shop/other in"),
        ({"repo": "../mirrors/shop__calc"}, "no mirror of"),
    ],
)
def test_what_a_mirror_does_not_have_is_said(mirror, change, problem):
    instance = Instance.from_dict({**of_git(mirror[1]), **change})
    with pytest.raises(ProviderError, match=problem):
        Workspace(instance, GitMirror(mirror[0]))


def test_a_mirrored_instance_is_played_with_its_hidden_tests(mirror, tmp_path):
    """The agent does not see test_patch; grading has it."""
    mirrors, broken = mirror
    source = write_rows(tmp_path / "i.jsonl", [of_git(broken)])
    settings = {"instances": source, "mirror_dir": str(mirrors), "test_share": 0.0}
    [task] = listing(tmp_path, settings).tasks
    assert task.goal.startswith("add gives the difference")
    env = make_environment("swegym", settings).env(expert=True)
    env.reset(task, 0)
    assert "test_add()" not in env.step("show tests/test_calc.py").observation.text
    assert env.step("test").observation.text == "2 of 2 tests passed."
    env.reset(task, 0)
    results = [env.step(action) for action in task.expert_plan]
    assert results[-1].won
    assert results[-1].info["tests"] == {"f2p_passed": 1, "f2p": 1, "p2p_passed": 2, "p2p": 2}
    env.close()


def test_what_is_no_task_is_skipped_and_counted(mirror, tmp_path):
    mirrors, broken = mirror
    good = of_git(broken)
    rows = [
        good,
        "{cut off",
        {"instance_id": "bare"},
        {**good, "instance_id": "no-commit", "base_commit": "f" * 40},
        {**good, "instance_id": "no-mirror", "repo": "shop/other"},
        {**good, "instance_id": "no-tests", "FAIL_TO_PASS": ["tests/test_none.py::test_x"], "PASS_TO_PASS": []},
        {**good, "instance_id": "no-repair", "patch": GOLD.replace("+    return a + b", "+    return a")},
        {**good, "instance_id": "bad-patch", "test_patch": TEST_PATCH.replace("mul", "div")},
        {**good, "instance_id": "again"},
    ]
    source = write_rows(tmp_path / "i.jsonl", rows)
    settings = {"instances": source, "mirror_dir": str(mirrors), "test_share": 0.0}
    found = listing(tmp_path, settings)
    assert len(found.tasks) == 1
    reasons = " / ".join(sorted(reason for _, reason in found.rejected))
    assert len(found.rejected) == 8
    for reason in (
        "a row is not JSON",
        "bare: field repo is missing or empty",
        "has no commit fff",
        "no mirror of shop/other",
        "no tests: the repository has none of the tests that it names",
        "the expert plan does not win",
        "the hunk at line 1 of tests/test_calc.py does not fit",
        "the same game as another seed's",
    ):
        assert reason in reasons
    with pytest.raises(TaskError, match="split train has 1 games of the 2 asked for; 8 seeds rejected"):
        listing(tmp_path, {"instances": source, "mirror_dir": str(mirrors), "test_share": 0.0}, count=2)


def test_a_data_set_that_cannot_be_had_is_an_error(tmp_path):
    if os.environ.get("HF_HUB_OFFLINE") != "1":
        pytest.skip("would go to the network")
    with pytest.raises(TaskError, match=r"env.instances=nobody/nothing: the data set cannot be loaded") as caught:
        listing(tmp_path, {"instances": "nobody/nothing"})
    assert "\n" not in str(caught.value)


def test_a_data_set_folder_is_loaded_as_the_hub_gives_it(tmp_path, monkeypatch):
    """The real loader, on a local data set of the same layout: lists as lists, unknown columns
    beside ours."""
    from turngrid.envs.data_set import rows

    folder = tmp_path / "owner" / "data"
    folder.mkdir(parents=True)
    write_rows(folder / "train.jsonl", [{**row(files=None, meta=None), "hints_text": "", "version": "1.0"}])
    monkeypatch.chdir(tmp_path)
    environment = make_environment("swegym")
    [found] = rows("owner/data", environment.read_row, environment.row_id)
    assert found.fields
    assert found.fields["instance_id"] == "shop__calc-1"
    assert found.fields["PASS_TO_PASS"] == ["tests/test_calc.py::test_add_none", "tests/test_calc.py::test_mul"]


def numbered(count: int) -> list[dict[str, object]]:
    """Different tasks: each has a comment of its own in its module."""
    made = []
    for number in range(count):
        files = {**row()["files"], "shop/calc.py": f"# {number}\n{WRONG}"}
        made.append(row(instance_id=f"shop__calc-{number}", files=files))
    return made


def sized(lines: int, tests: int) -> dict[str, int]:
    return {"patch_lines": lines, "tests": tests}


def test_difficulties_are_those_of_the_study():
    bounds = [(8, "easy"), (9, "medium"), (31, "medium"), (32, "hard")]
    assert [difficulty(sized(lines, 1), "lines") for lines, _ in bounds] == [level for _, level in bounds]
    bounds = [(17, "easy"), (18, "medium"), (53, "medium"), (54, "hard")]
    assert [difficulty(sized(1, tests), "tests") for tests, _ in bounds] == [level for _, level in bounds]


def test_tasks_choose_among_the_instances(tmp_path):
    rows = [*numbered(2), {**row(), "instance_id": "other-1", "repo": "getmoto/moto"}]
    made = make_environment("swegym", {"instances": write_rows(tmp_path / "i.jsonl", rows), "test_share": 0.0})
    counts = {"all": 3, "moto": 1, "getmoto/moto": 1, "shop/calc": 2, "calc-lines-easy": 2, "all-tests-easy": 3}
    assert {task: len(made.seeds(made.parse_task(task), "train")) for task in counts} == counts
    with pytest.raises(
        TaskError,
        match=r"env.task=dvc: split train has no such instance among 3 rows \(repositories: getmoto/moto, shop/calc\)",
    ):
        made.seeds(made.parse_task("dvc"), "train")
    with pytest.raises(TaskError, match="env.task=moto-lines-hard"):
        made.seeds(made.parse_task("moto-lines-hard"), "train")


def test_which_provider_is_taken():
    inline, bare = Instance.from_dict(row()), Instance.from_dict(row(files={}))
    settings = ({}, {"mirror_dir": "/x"})
    kinds = [type(make_environment("swegym", given).provider(one)) for one in (inline, bare) for given in settings]
    assert kinds == [InlineFiles, InlineFiles, ContainerImage, GitMirror]
    chosen = make_environment("swegym", {"provider": "git", "mirror_dir": "/x"})
    assert isinstance(chosen.provider(inline), GitMirror)


def test_images_are_called_as_they_are_published():
    instance = Instance.from_dict(row(instance_id="getmoto__moto-7365"))
    assert make_environment("swegym", {"provider": "container"}).provider(instance).image_of(instance) == (
        "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-7365"
    )
    assert ContainerImage("here/{repo}:{instance_id}").image_of(instance) == "here/shop/calc:getmoto__moto-7365"


def test_without_an_engine_a_container_is_refused(tmp_path):
    """Nothing here can start a container; the refusal is real, with or without the engine's
    program."""
    try:
        engine()
    except ProviderError as error:
        assert str(error).startswith("env.provider=container needs docker or podman")
    else:
        pytest.skip("an engine answers here")
    source = write_rows(tmp_path / "i.jsonl", [row(files={})])
    [(_, reason)] = listing(tmp_path, {"instances": source, "provider": "container", "test_share": 0.0}).rejected
    assert "env.provider=container needs docker or podman" in reason


def test_the_deadline_of_a_step_is_above_that_of_the_tests():
    values = shipped("env", "swegym")
    assert values["step_deadline_s"] > values["tests_deadline_s"]
