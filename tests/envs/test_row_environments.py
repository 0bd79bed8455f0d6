"""Environments whose tasks are rows of a file. That of docs/env.md: listed, split, played. And
env=swegym: files as others publish them, repositories from three places, and what is skipped."""

import contextlib
import json
import subprocess
from pathlib import Path

import pytest
from made import played
from page_modules import page_modules
from repair_samples import GOLD, RIGHT, TESTS, WRONG, row

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.repair.bugs import difficulty
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.providers import ContainerImage, GitMirror, InlineFiles, ProviderError, engine
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.swegym.environment import SIZES
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
    return row(**{"base_commit": commit, "files": {}, "test_patch": TEST_PATCH, **changes})


def write_rows(path: Path, rows: list[object]) -> str:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in rows) + "\n")
    return str(path)


def listing(tmp_path: Path, settings: dict[str, object], count: int = 9, at_most: tuple[str, ...] = ("train",)):
    catalogue = Catalogue(make_environment("swegym", settings), tmp_path / "cache")
    how = {"reward": "ratio", "workers": 1, "progress": False, "at_most": at_most}
    return catalogue.listings("all", {"train": count}, **how)["train"]


@pytest.mark.parametrize("name", ["shop__calc.git", "shop__calc", "shop/calc", "shop/calc.git"])
def test_a_mirror_gives_the_commit_and_nothing_outside_of_it(mirror, name):
    mirrors, broken = mirror
    (mirrors / name).parent.mkdir(exist_ok=True)
    (mirrors / "shop__calc.git").rename(mirrors / name)
    instance = Instance.from_dict(of_git(broken))
    with Workspace(instance, GitMirror(mirrors)) as workspace:
        assert workspace.paths == ["shop/__init__.py", "shop/calc.py", "tests/test_calc.py"]
        assert workspace.text("shop/calc.py") == WRONG
        with pytest.raises(KeyError):
            workspace.text("link")
        with pytest.raises(ValueError, match="link leaves the repository"):
            workspace.write("link", "x")
        assert not (workspace.base / ".git").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"base_commit": "f" * 40}, "cannot read commit ffff"),
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
    env = make_environment("swegym", settings).env()
    env.reset(task, 0)
    assert "test_add()" not in env.step("show tests/test_calc.py").observation.text
    assert env.step("test").observation.text == "2 of 2 tests passed."
    last = played(env, task)[1][-1]
    assert last.won and last.info["tests"] == {"f2p_passed": 1, "f2p": 1, "p2p_passed": 2, "p2p": 2}
    env.close()


def test_what_is_no_task_is_skipped_and_counted(mirror, tmp_path):
    mirrors, broken = mirror
    good = of_git(broken)
    none = {
        "a row is not JSON": "{cut off",
        "bare: field repo is missing or empty": {"instance_id": "bare"},
        "cannot read commit fff": {**good, "instance_id": "no-commit", "base_commit": "f" * 40},
        "the expert plan does not win": {**good, "instance_id": "no-repair", "patch": GOLD.replace("a + b", "a")},
        "hunk at line 1 of tests/test_calc.py does not fit": of_git(
            broken, instance_id="bad-patch", test_patch=TEST_PATCH.replace("mul", "div")
        ),
        "the same game as another seed's": {**good, "instance_id": "again"},
    }
    source = write_rows(tmp_path / "i.jsonl", [good, *none.values()])
    settings = {"instances": source, "mirror_dir": str(mirrors), "test_share": 0.0}
    found = listing(tmp_path, settings)
    assert len(found.tasks) == 1 and len(found.rejected) == len(none)
    assert all(any(reason in said for _, said in found.rejected) for reason in none)
    with pytest.raises(TaskError, match="split train has 1 games of the 2 asked for; 6 seeds rejected"):
        listing(tmp_path, settings, 2, at_most=())


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
    assert found.fields["instance_id"] == "shop__calc-1"
    assert found.fields["PASS_TO_PASS"] == ["tests/test_calc.py::test_add_none", "tests/test_calc.py::test_mul"]


def test_difficulties_are_those_of_the_study():
    levels = ["easy", "medium", "medium", "hard"]
    assert [difficulty(SIZES["lines"], lines) for lines in (8, 9, 31, 32)] == levels
    assert [difficulty(SIZES["tests"], tests) for tests in (17, 18, 53, 54)] == levels


def test_tasks_choose_among_the_instances(tmp_path):
    files = [{**row()["files"], "shop/calc.py": f"# {number}\n{WRONG}"} for number in range(2)]
    rows = [row(instance_id=f"shop__calc-{number}", files=own) for number, own in enumerate(files)]
    rows += [{**row(), "instance_id": "other-1", "repo": "getmoto/moto"}]
    made = make_environment("swegym", {"instances": write_rows(tmp_path / "i.jsonl", rows), "test_share": 0.0})
    counts = {"all": 3, "moto": 1, "getmoto/moto": 1, "shop/calc": 2, "calc-lines-easy": 2, "all-tests-easy": 3}
    assert {task: len(made.seeds(made.parse_task(task), "train")) for task in counts} == counts
    for task, why in (("dvc", r".* 3 rows \(repositories: getmoto/moto, shop/calc\)"), ("moto-lines-hard", "")):
        with pytest.raises(TaskError, match=f"env.task={task}: split train has no such instance{why}"):
            made.seeds(made.parse_task(task), "train")


def test_which_provider_is_taken_and_how_images_are_called():
    inline, bare = Instance.from_dict(row()), Instance.from_dict(row(files={}, instance_id="getmoto__moto-7365"))
    settings = ({}, {"mirror_dir": "/x"}, {"provider": "git", "mirror_dir": "/x"})
    kinds = [type(make_environment("swegym", given).provider(one)) for given in settings for one in (inline, bare)]
    assert kinds == [InlineFiles, ContainerImage, InlineFiles, GitMirror, GitMirror, GitMirror]
    image = make_environment("swegym").provider(bare).image_of(bare)
    assert image == "xingyaoww/sweb.eval.x86_64.getmoto_s_moto-7365"
    assert ContainerImage("here/{repo}:{instance_id}").image_of(bare) == "here/shop/calc:getmoto__moto-7365"


def test_without_an_engine_a_container_is_refused(tmp_path):
    with contextlib.suppress(ProviderError):
        pytest.skip(f"{engine()} answers here")
    source = write_rows(tmp_path / "i.jsonl", [row(files={})])
    with pytest.raises(TaskError, match="env.provider=container needs docker or podman"):
        make_environment("swegym", {"instances": source, "provider": "container"}).parse_task("all")


# ---- the environment of docs/env.md

ROWS = [{"id": number, "question": f"{number} + 1", "answer": number + 1} for number in range(40)]
NAME = "sums.environment:Sums"


@pytest.fixture
def sums(tmp_path):
    """Return a function that makes the environment, given rows or lines."""

    def make(rows, **settings):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
        return make_environment(NAME, {"instances": str(file), **settings})

    with page_modules(tmp_path, "env.md"):
        assert len((tmp_path / "sums/environment.py").read_text().splitlines()) <= 45
        yield make


def test_rows_are_played(sums, tmp_path):
    environment = sums([*ROWS[:2], "{", {"id": 7, "question": "?"}], test_share=0.0)
    catalogue = Catalogue(environment, tmp_path / "cache")
    found = catalogue.listings("sums", {"train": 9}, workers=1, progress=False, at_most=["train"])["train"]
    assert min(reason for _, reason in found.rejected) == "a row has no field 'answer'"
    assert len(found.rejected) == 2
    env = environment.env()
    for task in found.tasks:
        number = int(env.reset(task, 0).text.split()[0])
        assert not env.step("no").won
        assert env.step(str(number + 1)).won


def test_what_is_no_source_is_said_and_a_test_set_may_be_a_second_one(sums):
    first, second = sums(ROWS[:3]).settings.instances, sums(ROWS[3:5]).settings.instances
    environment = sums([], instances=first, test_instances=second)
    assert (len(environment.seeds({}, "train")), len(environment.seeds({}, "test"))) == (3, 2)
    for settings, message in (
        ({"instances": "none.jsonl"}, "env.instances='none.jsonl': no such file"),
        ({"test_instances": "none.json"}, "env.test_instances='none.json': no such file"),
        ({"test_share": 0.7, "validation_share": 0.7}, "env.test_share and env.validation_share"),
    ):
        with pytest.raises(TaskError, match=message):
            sums(ROWS, **settings).parse_task("sums")
    for rows, message in (([{}], "none of its 1 rows .* the first: a row has no field 'question'"), ([], "its 0 rows")):
        with pytest.raises(TaskError, match=message):
            sums(rows).seeds({}, "train")


def test_a_row_has_one_split_and_one_game_in_any_file(sums):
    rows = [{"id": number, "question": "?", "answer": number} for number in range(200)]
    one, other = sums(rows, validation_share=0.1), sums(rows[::-1], validation_share=0.1)
    seeds = {split: one.seeds({}, split) for split in ("test", "validation", "train")}
    assert {split: other.seeds({}, split) for split in seeds} == seeds
    assert sum(map(len, seeds.values())) == len(set().union(*seeds.values())) == 200
    assert 30 <= len(seeds["test"]) <= 60
    assert 10 <= len(seeds["validation"]) <= 32
    assert one.seeds({}, "demonstrations") == seeds["train"]
