"""env=repo_repair: tasks made of bugs that tests notice, won by their repair, split so that nothing
is seen twice."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from turngrid.envs import registry
from turngrid.envs.environment import Rejected
from turngrid.envs.extensions import shipped
from turngrid.envs.games.catalogue import PRECEDENCE, Catalogue
from turngrid.envs.repair import bugs as making_bugs
from turngrid.envs.repair import games as making
from turngrid.envs.repair import patches
from turngrid.envs.repair.bugs import LINES, TESTS, UNSEEN, Bug
from turngrid.envs.repair.instance import Instance, patch_lines
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Turn

SPLIT_PAIRS = list(itertools.combinations(PRECEDENCE, 2))


@pytest.fixture(scope="module")
def catalogue(game_cache):
    return Catalogue(registry.make_environment("repo_repair"), game_cache)


@pytest.fixture(scope="module")
def easy_listing(catalogue):
    return catalogue.listing("lines-easy", "train", 4, reward="ratio", workers=1, progress=False)


@pytest.fixture(scope="module")
def longer_tasks(catalogue):
    """One game each of the two longer sizes, from libraries that are held out."""
    return {
        size: catalogue.tasks(f"lines-{size}", "test", 1, reward="ratio", workers=1, progress=False)[0]
        for size in ("medium", "hard")
    }


@pytest.fixture
def env():
    made = registry.make_environment("repo_repair").env(expert=True, legal=True)
    yield made
    made.close()


def instance(task) -> Instance:
    return Instance.from_dict(json.loads(Path(task.game_file).read_text()))


def bug(library: str, old: str, new: str) -> Bug:
    """The bug that turns one text of a library into another."""
    for edit in making_bugs.library_edits(library):
        source = making_bugs.library(library).files[edit.path]
        start = source.index(old) if old in source else -1
        if start >= 0 and making_bugs.apply(source, [edit]) == source.replace(old, new, 1):
            return Bug(library, (edit,))
    raise AssertionError(f"no edit makes {new!r} of {old!r}")


# Tasks and settings


def test_the_deadline_of_a_step_is_above_that_of_the_tests():
    values = shipped("env", "repo_repair")
    assert values["step_deadline_s"] > 2 * values["tests_deadline_s"]


def test_turns_follow_the_length_of_the_repair():
    environment = registry.make_environment("repo_repair")
    tasks = ("lines-easy", "lines-medium", "lines-hard", "all", "tests-easy")
    turns = [environment.max_turns(task) for task in tasks]
    assert turns == [12, 16, 24, 24, 24]


# Splits


@pytest.mark.parametrize("task", ["all", "lines-easy", "tests-easy", "tests-medium", "tests-hard"])
def test_held_out_libraries_are_never_trained_on(task):
    environment = registry.make_environment("repo_repair")
    held_out = {split: environment.for_split(environment.parse_task(task), split)["libraries"] for split in PRECEDENCE}
    for split, names in held_out.items():
        assert names
        assert all((name in UNSEEN) == (split in ("test", "test_paper", "validation")) for name in names)


@pytest.mark.parametrize(("size", "bounds"), making_bugs.SUITES.items())
def test_tasks_by_tests_have_the_study_s_bounds(size, bounds):
    environment = registry.make_environment("repo_repair")
    for split in ("train", "test"):
        names = environment.for_split(environment.parse_task(f"tests-{size}"), split)["libraries"]
        assert all(bounds[0] <= TESTS[name] <= bounds[1] for name in names)


@pytest.mark.parametrize("test_split", ["unseen_libraries", "seen_libraries"])
@pytest.mark.parametrize("task", ["all", "ledger"])
def test_no_bug_belongs_to_two_splits(test_split, task):
    environment = registry.make_environment("repo_repair", {"test_split": test_split})
    pools = {}
    for split in PRECEDENCE:
        params = environment.for_split(environment.parse_task(task), split)
        pools[split] = set(making_bugs.singles(tuple(params["libraries"]), params["shares"], params["split"]))
        assert pools[split]
    for one, other in SPLIT_PAIRS:
        same = making_bugs.SAME.get(one, one) == making_bugs.SAME.get(other, other)
        assert pools[one] == pools[other] if same else not pools[one] & pools[other]


def test_what_is_trained_on_does_not_depend_on_how_it_is_tested():
    train = [
        place.for_split(place.parse_task("all"), "train")
        for place in (
            registry.make_environment("repo_repair", {"test_split": split})
            for split in ("unseen_libraries", "seen_libraries")
        )
    ]
    assert train[0] == train[1]


def test_repairs_of_one_line_are_listed_and_longer_ones_are_drawn():
    environment = registry.make_environment("repo_repair")
    params = environment.for_split(environment.parse_task("lines-easy"), "train")
    seeds = environment.seeds(params, "train")
    assert seeds[0] == 30001
    assert len(seeds) == len(making.listed(params)) > 600
    assert {one.lines() for one in making.listed(params)} == {1, 2}
    assert len({one.library for one in making.listed(params)[:20]}) >= 5
    assert environment.seeds(environment.for_split(environment.parse_task("lines-hard"), "train"), "train") is None


# Which bugs make tasks


def test_a_bug_that_no_test_notices_makes_no_task():
    with pytest.raises(Rejected, match="no test notices it"):
        one, two = "        self.hits += 1\n", "        self._entries.move_to_end(key)\n"
        making.instance_of(bug("caches", one + two, two + one))


def test_a_bug_that_never_ends_makes_no_task(monkeypatch):
    monkeypatch.setattr(making, "LIMITS", replace(making.LIMITS, cpu_s=2.0))
    with pytest.raises(Rejected, match="the tests do not end well: out_of_cpu_time"):
        making.instance_of(bug("intervals", "low = middle + 1", "low = middle + 0"))


def test_a_bug_that_breaks_everything_makes_no_task():
    [missing] = [
        one for one in making_bugs.library_edits("arith") if (one.kind, one.scope) == ("missing body", "tokenise")
    ]
    with pytest.raises(Rejected, match="every test fails"):
        making.instance_of(Bug("arith", (missing,)))


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


def test_the_statement_speaks_of_tests_and_promises_and_shows_no_line():
    made = making.instance_of(
        bug("ledger", "if total <= 0 or min(weights) < 0:", "if total <= 0 and min(weights) < 0:")
    )
    said = made.problem_statement
    assert said.startswith("1 of 17 tests of the library ledger fail.")
    assert "- parts add up exactly" in said
    assert "- split in money.py: Parts in proportion to the weights that add up exactly" in said
    assert "min(weights)" not in said
    assert "if total" not in said


# Made games


def test_the_same_seed_makes_the_same_bytes(tmp_path):
    environment = registry.make_environment("repo_repair")
    params = environment.for_split(environment.parse_task("ledger"), "train")
    made = []
    for place in ("one", "two"):
        making._run.cache_clear()
        folder = tmp_path / place
        folder.mkdir()
        seed = next(seed for seed in itertools.count(30001) if _makes(environment, params, seed, folder))
        made.append((seed, (folder / "instance.json").read_bytes()))
    assert made[0] == made[1]


def _makes(environment, params, seed, folder) -> bool:
    try:
        environment.make_game(params, seed, folder)
    except Rejected:
        return False
    return True


def test_games_are_easy_distinct_and_of_several_libraries(easy_listing):
    made = [instance(task) for task in easy_listing.tasks]
    assert len({task.fingerprint for task in easy_listing.tasks}) == len(made) == 4
    assert len({one.repo for one in made}) >= 3
    assert not {one.repo for one in made} & set(UNSEEN)
    assert all(1 <= one.meta["patch_lines"] <= 2 for one in made)
    reasons = {reason.split(":")[0] for _, reason in easy_listing.rejected}
    assert reasons <= {
        "no test notices it",
        "every test fails",
        "the tests do not end well",
        "the tests cannot be collected",
    }


@pytest.mark.parametrize("size", ["medium", "hard"])
def test_longer_repairs_have_their_length(longer_tasks, size):
    made = instance(longer_tasks[size])
    assert LINES[size][0] <= patch_lines(made.patch) == made.meta["patch_lines"] <= LINES[size][1]
    assert made.repo in UNSEEN
    assert len(longer_tasks[size].expert_plan) <= registry.make_environment("repo_repair").max_turns(f"lines-{size}")


def test_the_patch_gives_the_library_back(easy_listing, longer_tasks):
    for task in (*easy_listing.tasks, *longer_tasks.values()):
        made = instance(task)
        repaired = {**made.files, **patches.apply(made.patch, made.files.__getitem__)}
        assert repaired == making_bugs.library(made.repo).files


def test_the_expert_plan_wins_and_earns_one(easy_listing, longer_tasks, env):
    for task in (easy_listing.tasks[0], longer_tasks["hard"]):
        seen = env.reset(task, 0)
        assert seen.expert == task.expert_plan
        results = [env.step(command) for command in task.expert_plan]
        assert [result.won for result in results] == [False] * (len(results) - 1) + [True]
        assert sum(result.score_delta for result in results) == 1.0
        assert earned("ratio", results) == earned("binary", results) == earned("pass_ratio_reference", results) == 1.0


def earned(name: str, results) -> float:
    turns = [
        Turn(observation="", action="", action_ids=[], logprobs=[], sampled=False, act_seconds=0.0) for _ in results
    ]
    for turn, result in zip(turns, results, strict=True):
        turn.info, turn.score_delta = dict(result.info), result.score_delta
    return sum(reward(name).turn_rewards(turns, results[-1].won, 1.0))


@pytest.mark.slow
def test_there_are_forty_tasks_over_all_libraries_and_no_two_are_the_same(catalogue):
    """Some minutes: each is made, noticed by the tests, won by its repair."""
    listings = {
        split: found.tasks
        for split, found in catalogue.listings("all", {"test": 20, "train": 40}, reward="ratio", progress=False).items()
    }
    repos = {split: Counter(instance(task).repo for task in tasks) for split, tasks in listings.items()}
    assert set(repos["test"]) == set(UNSEEN)
    assert len(repos["train"]) >= 6
    assert not set(repos["train"]) & set(repos["test"])
    tasks = [task for made in listings.values() for task in made]
    assert len({task.fingerprint for task in tasks}) == len(tasks) == 60
    sizes = Counter(instance(task).meta["difficulty"]["lines"] for task in tasks)
    assert all(sizes[size] >= 10 for size in LINES)
