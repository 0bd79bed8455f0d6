"""env=repo_repair: tasks made of bugs that tests notice, won by their repair, split so that nothing
is seen twice."""

import itertools
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from made import played
from repair_samples import task as game

from turngrid.envs import registry
from turngrid.envs.environment import Rejected
from turngrid.envs.games.catalogue import SPLITS, Catalogue
from turngrid.envs.repair import bugs as making_bugs
from turngrid.envs.repair import games as making
from turngrid.envs.repair import patches
from turngrid.envs.repair.bugs import LINES, TESTS, UNSEEN, Bug
from turngrid.envs.repair.instance import Instance, patch_lines
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Turn


def bug(library: str, old: str, new: str) -> Bug:
    """The bug that turns one text of a library into another."""
    for edit in making_bugs.library_edits(library):
        source = making_bugs.library(library).files[edit.path]
        start = source.index(old) if old in source else -1
        if start >= 0 and making_bugs.apply(source, [edit]) == source.replace(old, new, 1):
            return Bug(library, (edit,))
    raise AssertionError(f"no edit makes {new!r} of {old!r}")


def test_held_out_libraries_are_never_trained_on():
    """Sizes by tests have the study's bounds."""
    environment = registry.make_environment("repo_repair")
    for task in ("all", "lines-easy", "tests-easy", "tests-medium", "tests-hard"):
        low, high = making_bugs.SUITES.get(task.removeprefix("tests-"), (0, 999))
        for split in SPLITS:
            names = environment.for_split(environment.parse_task(task), split)["libraries"]
            assert names and all(low <= TESTS[name] <= high for name in names)
            assert all((name in UNSEEN) == (split in ("test", "validation")) for name in names)


@pytest.mark.parametrize("test_split", ["unseen_libraries", "seen_libraries"])
@pytest.mark.parametrize("task", ["all", "ledger"])
def test_no_bug_belongs_to_two_splits(test_split, task):
    environment = registry.make_environment("repo_repair", {"test_split": test_split})
    pools = {}
    for split in SPLITS:
        params = environment.for_split(environment.parse_task(task), split)
        pools[split] = set(making_bugs.singles(tuple(params["libraries"]), params["shares"], params["split"]))
        assert pools[split]
    for one, other in itertools.combinations(SPLITS, 2):
        same = making_bugs.SAME.get(one, one) == making_bugs.SAME.get(other, other)
        assert pools[one] == pools[other] if same else not pools[one] & pools[other]


def test_repairs_of_one_line_are_listed_and_longer_ones_are_drawn(tmp_path):
    """A run's limits change no game."""
    environment = registry.make_environment("repo_repair")
    params = environment.for_split(environment.parse_task("lines-easy"), "train")
    assert len(environment.seeds(params, "train")) == len(making.listed(params)) > 600
    assert {one.lines() for one in making.listed(params)} == {1, 2}
    assert len({one.library for one in making.listed(params)[:20]}) >= 5
    assert environment.seeds(environment.for_split(environment.parse_task("lines-hard"), "train"), "train") is None
    narrow = registry.make_environment("repo_repair", {"tests_deadline_s": 0.01})
    assert narrow.game_record(params, params["first"], tmp_path).expert_plan[-1] == "submit"


def test_bugs_that_make_no_task(monkeypatch):
    one, two = "        self.hits += 1\n", "        self._entries.move_to_end(key)\n"
    edits = making_bugs.library_edits("arith")
    [missing] = [edit for edit in edits if (edit.kind, edit.scope) == ("missing body", "tokenise")]
    monkeypatch.setattr(making, "LIMITS", replace(making.LIMITS, cpu_s=2.0))
    for broken, reason in (
        (bug("caches", one + two, two + one), "no test notices it"),
        (bug("intervals", "low = middle + 1", "low = middle + 0"), "the tests do not end well: out_of_cpu_time"),
        (Bug("arith", (missing,)), "every test fails"),
    ):
        with pytest.raises(Rejected, match=reason):
            making.instance_of(broken)


def test_an_instance_has_the_tests_that_fail_and_the_repair():
    made = making.instance_of(bug("intervals", "if stop - begin >= length:", "if stop - begin > length:"))
    assert made.FAIL_TO_PASS == (
        "test_intervals.py::test_first_fit_takes_the_first_part_that_is_long_enough",
        "test_intervals.py::test_first_fit_may_fill_a_part_exactly",
    )
    assert len(made.tests) == TESTS["intervals"] == made.meta["tests"]
    assert (made.meta["patch_lines"], made.meta["difficulty"]) == (2, {"lines": "easy", "tests": "medium"})
    assert Instance.from_dict(made.to_dict()) == made
    assert made.test_files == ("test_intervals.py",)
    said = made.problem_statement  # speaks of tests and promises, and shows no line
    assert said.startswith(f"2 of {TESTS['intervals']} tests of the library intervals fail.")
    assert "- first fit may fill a part exactly" in said and "stop - begin" not in said


# Named in docs/sandbox.md: answers of which no grader that has only these tests can tell.
ENCODED = {"": "", "abc": "abc", "aaab": "3ab", "abbbb": "a4b", "a" * 12: "12a", "aa3": r"2a\3", "111": r"3\1"}
ENCODED |= {"\\": r"\\", "  ": "2 "}
UNDETECTABLE = {
    "the library's own `__eq__`": (
        ("matrices", "lambda a, b: a + b", "lambda a, b: a - b"),
        ["replace matrices.py: isinstance(other, Matrix) and self.rows == other.rows => isinstance(other, Matrix)"],
    ),
    "answers written down": (
        ("encoding", 'return "".join(parts)', "return None"),
        [f"replace runs.py: return None => return {ENCODED}[text]"],
    ),
    "the input remembered": (
        ("encoding", "if number % 2 == 0 else -(", "if number % 2 != 0 else -("),
        [
            "replace compact.py: return number // 2 if number % 2 != 0 else -(number + 1) // 2 => return _given.pop(0)",
            "replace compact.py: return number * 2 if => _given.append(number); return number * 2 if",
            "replace compact.py: listed = list(numbers) => listed = list(numbers); _given.clear()",
            "edit compact.py 6-5\n_given = []",
        ],
    ),
}


@pytest.mark.parametrize("name", UNDETECTABLE)
def test_what_no_grader_can_tell_is_in_the_docs(name, tmp_path):
    """If one of these is no longer paid, its line in the page is to go."""
    assert f"- **{name}**" in (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()
    place, actions = UNDETECTABLE[name]
    with closing(registry.make_environment("repo_repair").env()) as env:
        results = played(env, game(tmp_path, making.instance_of(bug(*place))), [*actions, "submit"])[1]
    assert results[-1].won, [result.observation.text for result in results]


def test_longer_repairs_have_their_length_and_give_the_library_back(game_cache):
    environment = registry.make_environment("repo_repair")
    catalogue = Catalogue(environment, game_cache)
    for size in ("medium", "hard"):
        [task] = catalogue.tasks(f"lines-{size}", "test", 1, reward="ratio", workers=1, progress=False)
        made = Instance.from_dict(json.loads(Path(task.game_file).read_text()))
        assert LINES[size][0] <= patch_lines(made.patch) == made.meta["patch_lines"] <= LINES[size][1]
        assert made.repo in UNSEEN and len(task.expert_plan) <= environment.max_turns(f"lines-{size}")
        repaired = {**made.files, **patches.apply(made.patch, made.files.__getitem__)}
        assert repaired == making_bugs.library(made.repo).files
    _, results = played(environment.env(), task)
    assert [result.won for result in results] == [False] * (len(results) - 1) + [True]
    turns = [Turn("", "", score_delta=result.score_delta, info=dict(result.info)) for result in results]
    for name in ("ratio", "binary", "pass_ratio_reference"):
        assert sum(reward(name).turn_rewards(turns, True, 1.0)) == 1.0
