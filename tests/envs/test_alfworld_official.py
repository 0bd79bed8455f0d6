"""The official data's layout and both kinds of its files, made from generated games (the data
itself is a download)."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from alfworld_stock import content, migrated, old, one_of_each, put_file
from made import made as made_game
from made import played

from turngrid.envs import registry
from turngrid.envs.alfworld import official
from turngrid.envs.alfworld.kinds import TYPES
from turngrid.envs.environment import Rejected
from turngrid.envs.types import EnvError, TaskError


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


def made(data, split, **settings):
    """The games of a split, and the reasons why others are none."""
    environment, tasks, reasons = make_environment(data, **settings), [], []
    for seed in seeds(data, split, **settings):
        try:
            folder = Path(tempfile.mkdtemp(dir=data))
            tasks.append(made_game(environment, "all_types", seed, folder, split))
        except Rejected as reason:
            reasons.append(str(reason))
    return tasks, reasons


def seeds(data, split="train", **settings):
    environment = make_environment(data, **settings)
    return environment.seeds(environment.for_split(environment.parse_task("all_types"), split), split)


def test_both_kinds_of_files_are_played_with_todays_commands(data, games):
    """A game is in the data once with its plan and once without: the old one takes the plan that
    was made for it."""
    tasks, reasons = made(data, "test")
    plans, env = {task.goal: task.expert_plan for task in games}, make_environment(data).env()
    assert not reasons and {task.goal for task in tasks} == set(plans)
    for task in tasks:
        assert task.expert_plan in ((), plans[task.goal])
        assert played(env, task, plans[task.goal])[1][-1].won
    assert sum(not task.expert_plan for task in tasks) == 3


def test_the_listing_is_sorted_and_types_come_in_turn_or_are_filtered(data, games, tmp_path):
    """The same files, written in the opposite order somewhere else, are the same seeds. Movable and
    sliced games are left out."""
    copy, source = tmp_path / "copy", data / "json_2.1.1"
    put_file(data, "train", games[0], content(games[0]), 7)
    for name in (
        "pick_and_place_with_movable_recep-Apple-Bowl-Desk-1",
        "pick_and_place_simple-AppleSliced-None-Desk-1",
    ):
        file = source / "train" / name / "trial_T1" / "game.tw-pddl"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content(games[0])))
    for file in sorted(source.rglob("*.tw-pddl"), reverse=True):
        target = copy / file.relative_to(data)
        target.parent.mkdir(parents=True)
        shutil.copy(file, target)
    places = [make_environment(root) for root in (data, copy)]
    params = [place.for_split(place.parse_task("all_types"), "test") for place in places]
    assert params[0] == params[1] and seeds(data, "test") == seeds(copy, "test")
    listed = official.games(source, "train")
    assert list(listed.paths) == sorted(listed.paths) and sorted(seeds(data)) == list(range(1, 8))
    assert [official.type_of(listed.file(seed)) for seed in seeds(data)][:6] == list(TYPES)
    kinds = {official.type_of(listed.file(seed)) for seed in seeds(data, task_types=[TYPES[2], TYPES[4]])}
    assert kinds == {TYPES[2], TYPES[4]}
    before = listed.listing, listed.file(1).write_text("cut short")
    assert official.games(source, "train").listing != before[0], "a game that was rejected is tried again"


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
    assert len(searched) == 6 and all(played(make_environment(data).env(), task)[1][-1].won for task in searched)
    assert {len(task.expert_plan) for task in searched} != {len(task.expert_plan) for task in own}


BROKEN = {
    "truncated or corrupt": lambda data: json.dumps(data)[:-2000],
    "the game file has no pddl_problem": lambda data: json.dumps(
        {k: v for k, v in data.items() if k != "pddl_problem"}
    ),
    "not a JSON object": lambda data: json.dumps([1, 2]),
    "marked unsolvable": lambda data: json.dumps({**data, "solvable": False, "walkthrough": None}),
    "not marked as solvable": lambda data: json.dumps({**data, "solvable": None, "walkthrough": ["look"]}),
    "the engine cannot load it": lambda data: json.dumps(
        {**data, "pddl_problem": data["pddl_problem"].replace("(:domain alfred)", "(:domain alfred) (:nonsense)")}
    ),
    "its grammar has no task": lambda data: json.dumps({**data, "grammar": "grammar"}),
    "follows no template of alfworld": lambda data: json.dumps(
        {**data, "grammar": data["grammar"].replace("Your task is to: ", "Your task is to: kindly ")}
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


def test_where_the_data_is(data, tmp_path_factory, monkeypatch):
    def source(**settings):
        return registry.make_environment("alfworld", settings).parse_task("all_types")["source"]

    assert source() == "generated"
    for folder, kind in ((data, "official"), (Path.home() / ".cache" / "alfworld", "generated")):
        monkeypatch.setenv("ALFWORLD_DATA", str(folder))
        assert source() == kind
    monkeypatch.setenv("ALFWORLD_DATA", str(data / "nowhere"))
    with pytest.raises(TaskError, match="ALFWORLD_DATA=.*no folder json_2.1"):
        source()
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(TaskError, match="env.data_dir=.*no folder json_2.1"):
        source(data_dir=str(empty))
    (empty / "json_2.1.1" / "train").mkdir(parents=True)
    environment = make_environment(empty)
    with pytest.raises(TaskError, match="no train/TYPE"):
        environment.for_split(environment.parse_task("all_types"), "train")


def test_data_that_changes_under_a_run_is_an_error(data, games, tmp_path):
    environment = make_environment(data)
    params = environment.for_split(environment.parse_task("all_types"), "train")
    put_file(data, "train", games[0], content(games[0]), 99)
    with pytest.raises(EnvError, match="changed while they were listed"):
        environment.make_game(params, 1, tmp_path)
