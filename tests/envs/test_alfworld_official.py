"""The official data's layout and both kinds of its files, made from generated games (the data
itself is a download)."""

import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest
from alfworld_stock import content, migrated, old, one_of_each, put_file

from turngrid.envs import registry
from turngrid.envs.alfworld import official
from turngrid.envs.alfworld.kinds import TYPES
from turngrid.envs.environment import Rejected
from turngrid.envs.games.catalogue import Catalogue, games_hash
from turngrid.envs.types import EnvError, TaskError, TaskRef


@pytest.fixture(scope="module")
def games(game_cache):
    return list(one_of_each(game_cache).values())


@pytest.fixture
def data(games, tmp_path):
    """Every second file is an old one; the others are as migrated, with their plans."""
    for folder, shift in (("train", 0), ("valid_seen", 100), ("valid_unseen", 200)):
        for number, task in enumerate(games):
            style = old if number % 2 else migrated
            put_file(tmp_path, folder, task, style(content(task)), number + shift)
    return tmp_path


def make_environment(data, **settings):
    return registry.make_environment("alfworld", {"data_dir": str(data), **settings})


def catalogue(data, **settings):
    return Catalogue(make_environment(data, **settings), data / "cache")


def made(data, split, **settings):
    """What the catalogue's makers would answer, in this process: the games, and the reasons why
    others are none."""
    environment = make_environment(data, **settings)
    params = environment.for_split(environment.parse_task("all_types"), split)
    tasks, reasons = [], []
    for seed in environment.seeds(params, split):
        folder = Path(tempfile.mkdtemp(dir=data))
        try:
            record = environment.game_record(params, seed, folder)
        except Rejected as reason:
            reasons.append(str(reason))
        else:
            about = {**asdict(record), "game_file": str(folder / record.file)}
            about.pop("file")
            tasks.append(TaskRef("alfworld", "all_types", params, seed, split, **about))
    return tasks, reasons


def seeds(data, split="train", **settings):
    environment = make_environment(data, **settings)
    return environment.seeds(environment.for_split(environment.parse_task("all_types"), split), split)


def wins(data, task):
    env = make_environment(data).env()
    first = env.reset(task, 0)
    results = [env.step(action) for action in task.expert_plan]
    env.close()
    return results[-1].won and first.goal == task.goal


def test_both_kinds_of_files_are_played_with_todays_commands(data, games):
    """A game is in the data once with its plan and once without: the old one takes the plan that
    was made for it."""
    tasks, reasons = made(data, "test")
    assert not reasons
    assert {task.goal for task in tasks} == {task.goal for task in games}
    plans = {task.goal: task.expert_plan for task in games}
    env = make_environment(data).env()
    for task in tasks:
        assert task.expert_plan in ((), plans[task.goal])
        env.reset(task, 0)
        assert [env.step(action).won for action in plans[task.goal]][-1]
    assert sum(not task.expert_plan for task in tasks) == 3
    env.close()


def test_the_listing_is_sorted_whatever_the_file_system_does(data, games, tmp_path):
    """The same files, written in the opposite order somewhere else: same seeds, same evaluation
    set, same cache."""
    copy = tmp_path / "copy"
    for file in sorted((data / "json_2.1.1").rglob("*.tw-pddl"), reverse=True):
        target = copy / file.relative_to(data)
        target.parent.mkdir(parents=True)
        shutil.copy(file, target)
    places = [make_environment(root) for root in (data, copy)]
    params = [place.for_split(place.parse_task("all_types"), "test") for place in places]
    assert params[0] == params[1]
    assert seeds(data, "test") == seeds(copy, "test")
    first = [catalogue(root).tasks("all_types", "test", 1, workers=1, progress=False) for root in (data, copy)]
    assert games_hash(first[0]) == games_hash(first[1])
    paths = official.games(data / "json_2.1.1", "train").paths
    assert list(paths) == sorted(paths)
    assert sorted(seeds(data)) == [1, 2, 3, 4, 5, 6]


def test_types_are_taken_in_turn_or_filtered(data, games):
    put_file(data, "train", games[0], content(games[0]), 7)
    put_file(data, "train", games[0], content(games[0]), 8)
    listed = official.games(data / "json_2.1.1", "train")
    mixed = [official.type_of(listed.file(seed)) for seed in seeds(data)]
    assert mixed[:6] == list(TYPES)
    assert sorted(seeds(data)) == list(range(1, 9))
    kinds = {official.type_of(listed.file(seed)) for seed in seeds(data, task_types=[TYPES[2], TYPES[4]])}
    assert kinds == {TYPES[2], TYPES[4]}


def test_each_split_has_its_folder(data):
    def folder(split, **settings):
        environment = make_environment(data, **settings)
        return environment.for_split(environment.parse_task("all_types"), split)["folder"]

    assert [folder(split) for split in ("train", "demonstrations", "validation", "test")] == [
        *("train", "train", "valid_seen", "valid_unseen")
    ]
    assert folder("test", test_split="valid_seen") == "valid_seen"


def test_demonstrations_need_a_plan_and_the_searcher_makes_one(data):
    own, reasons = made(data, "demonstrations", expert="plan")
    assert len(own) == 3
    assert reasons == ["no expert plan; use env.expert=searcher"] * 3
    searched, _ = made(data, "demonstrations", expert_max_commands=50)
    assert len(searched) == 6 and all(wins(data, task) for task in searched)
    assert {len(task.expert_plan) for task in searched} != {len(task.expert_plan) for task in own}


def test_an_expert_that_fails_is_counted(data):
    """Through the catalogue, whose listing is what a run reports."""
    short = catalogue(data, expert_max_commands=1, task_types=[TYPES[0], TYPES[4]])
    listed = short.listing("all_types", "demonstrations", None, workers=1, progress=False)
    assert [reason for _, reason in listed.rejected] == ["the searcher expert did not win within 1 commands"] * 2


BROKEN = {
    "truncated or corrupt": lambda data: json.dumps(data)[:-2000],
    "the game file has no pddl_problem": lambda data: json.dumps(
        {k: v for k, v in data.items() if k != "pddl_problem"}
    ),
    "not a JSON object": lambda data: json.dumps([1, 2]),
    "marked unsolvable": lambda data: json.dumps({**data, "solvable": False, "walkthrough": None}),
    "not marked as solvable": lambda data: json.dumps({**data, "solvable": None, "walkthrough": ["look"]}),
    "the PDDL ends in the middle": lambda data: json.dumps({**data, "pddl_problem": data["pddl_problem"][:-300]}),
    "the engine cannot load it": lambda data: json.dumps(
        {**data, "pddl_problem": data["pddl_problem"].replace("(:domain alfred)", "(:domain alfred) (:nonsense)")}
    ),
    "its grammar has no task": lambda data: json.dumps({**data, "grammar": "grammar"}),
    "not one of the six task types": lambda data: json.dumps(
        {**data, "pddl_problem": data["pddl_problem"].replace("(:goal", "(:goal (forall (?x - object) (isSliced ?x))")}
    ),
    "its folder says": None,
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_broken_file_is_skipped_and_counted(reason, games, tmp_path):
    good, broken = games[0], games[1]
    put_file(tmp_path, "train", good, content(good))
    file = put_file(tmp_path, "train", broken, content(broken))
    if BROKEN[reason] is None:
        file.write_text(json.dumps(content(good)))
    else:
        file.write_text(BROKEN[reason](content(broken)))
    tasks, reasons = made(tmp_path, "train")
    assert [task.goal for task in tasks] == [good.goal]
    assert len(reasons) == 1
    assert reason in reasons[0]


def test_the_catalogue_goes_on_after_broken_files(data):
    """Their seeds and reasons are in the listing, and the count that was asked for is filled from
    the rest."""
    for file in (data / "json_2.1.1" / "train").rglob("*.tw-pddl"):
        if file.parent.name in ("trial_T0", "trial_T3"):
            file.write_text(file.read_text()[:500])
    listed = catalogue(data).listing("all_types", "train", 4, workers=1, progress=False)
    assert len(listed.tasks) == 4
    assert 0 < len(listed.rejected) <= 2
    assert {reason for _, reason in listed.rejected} == {"the game file is not JSON: truncated or corrupt"}
    with pytest.raises(TaskError, match="4 games of the 5 asked for; 2 seeds rejected"):
        catalogue(data).listing("all_types", "train", 5, workers=1, progress=False)


def test_movable_and_sliced_games_are_left_out(data, games):
    for name in (
        "pick_and_place_with_movable_recep-Apple-Bowl-Desk-1",
        "pick_and_place_simple-AppleSliced-None-Desk-1",
    ):
        file = data / "json_2.1.1" / "train" / name / "trial_T1" / "game.tw-pddl"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content(games[0])))
    assert len(seeds(data)) == 6


def test_a_folder_without_data_is_said_at_once(tmp_path, monkeypatch):
    with pytest.raises(TaskError, match="env.data_dir=.*no folder json_2.1"):
        make_environment(tmp_path).parse_task("all_types")
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    environment = make_environment(tmp_path)
    with pytest.raises(TaskError, match="no train/TYPE"):
        environment.for_split(environment.parse_task("all_types"), "train")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(TaskError, match="ALFWORLD_DATA=.*no folder json_2.1"):
        registry.make_environment("alfworld").parse_task("all_types")


def test_the_variable_names_the_data_too(data, monkeypatch):
    assert registry.make_environment("alfworld").parse_task("all_types")["source"] == "generated"
    monkeypatch.setenv("ALFWORLD_DATA", str(data))
    assert registry.make_environment("alfworld").parse_task("all_types")["source"] == "official"
    monkeypatch.setenv("ALFWORLD_DATA", str(Path.home() / ".cache" / "alfworld"))
    assert registry.make_environment("alfworld").parse_task("all_types")["source"] == "generated"


def test_data_that_changes_under_a_run_is_an_error(data, games, tmp_path):
    environment = make_environment(data)
    params = environment.for_split(environment.parse_task("all_types"), "train")
    put_file(data, "train", games[0], content(games[0]), 99)
    with pytest.raises(EnvError, match="changed while they were listed"):
        environment.make_game(params, 1, tmp_path)
