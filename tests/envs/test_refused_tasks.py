"""Tasks, settings and packages that are not there: each is refused in one line with what to use."""

import re
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from turngrid.envs.extensions import shipped
from turngrid.envs.registry import ENVIRONMENTS, make_environment
from turngrid.envs.types import TaskError

# Environment, task, settings, and what the refusal says (a regular expression)
REFUSED: tuple[tuple[str, str, Mapping[str, Any], str], ...] = (
    ("textworld", "w2o3q4", {}, "use w2-o3-q4"),
    ("textwrld", "w2-o3-q4", {}, "use textworld"),
    ("tw_simple", "w2-o3-q4", {}, "use tw-simple"),
    ("alfworld", "pick_and_place", {}, "use pick_and_place_simple"),
    ("alfworld", "six_types", {}, "; use "),
    ("alfworld", "all_types", {"task_types": ["look_at_object"]}, "use look_at_obj_in_light"),
    ("alfworld", "four_types", {"task_types": ["pick_two_obj_and_place"]}, "leaves no type of four_types"),
    ("alfworld", "all_types", {"test_split": "valid_unsen"}, "is unknown; use env.test_split=valid_unseen"),
    ("sokoban", "s6-b3", {}, "unknown task 's6-b3' of sokoban; use s6-b"),
    ("crafting", "d9", {}, "unknown task 'd9' of crafting; use d"),
    ("search", "h5", {}, "unknown task 'h5' of search; use h"),
    ("search", "h3-2", {}, "unknown task 'h3-2' of search; use h"),
    ("search", "h1-4", {"tell_budget": 3}, "env.tell_budget=3: .* h1-4 may need 4 searches; use env.tell_budget=4"),
    ("webshop", "a9-o1", {}, "unknown task 'a9-o1' of webshop; use a3-o1"),
    ("babyai", "GoToLocl", {}, "unknown task 'GoToLocl' of babyai; use GoToLocal$"),
    ("babyai", "BabyAI-GoToLocal-v0", {}, "use GoToLocal$"),
    ("bfcl", "multi_turn_miss_fun", {}, "unknown task 'multi_turn_miss_fun' of bfcl; use miss_func"),
    ("scienceworld", "boils", {}, "unknown task 'boils' of scienceworld; use boil$"),
    ("scienceworld", "boil", {"simplifications": "openDoor"}, "env.simplifications=openDoor .*; use openDoors .easy, "),
    ("textworldexpress", "coins", {}, "unknown task 'coins' of textworldexpress; use coin$"),
    ("textworldexpress", "coin", {"options": {"rooms": 3}}, "env.options={rooms: 3}: .*; use one of numLocations, "),
    ("textworldexpress", "sorting", {"options": {"rooms": 3}}, "no such option; use env.options=null"),
    ("textworldexpress", "coin", {"options": {"numLocations": 12}}, "{numLocations: 12} must be from 1 to 11"),
    ("gym", "FrozenLak-v1", {"id": "FrozenLak-v1"}, "Did you mean: `FrozenLake`"),
    ("gym", "FrozenLake", {"id": "FrozenLake"}, "use FrozenLake-v1"),
    ("gym", "Taxi-v3", {"id": "Taxi-v3"}, "Please use `Taxi-v4`"),
    ("gym", "CartPole-v1", {"id": "CartPole-v1"}, "observes Box and acts by Discrete"),
    ("gym", "Taxi-v4", {}, "set env.id=Taxi-v4"),
    ("gym", "FrozenLake-v1", {"kwargs": {"slippery": True}}, "unexpected keyword argument 'slippery'"),
    ("textarena", "Sokobn-v0", {"id": "Sokobn-v0"}, "is no game of env=textarena; use Sokoban-v0"),
    ("two_player", "TicTacTo-v0", {"id": "TicTacTo-v0"}, "use TicTacToe-v0"),
    ("two_player", "x", {"id": "Nim-v0"}, "env.id=x"),
    ("tau2", "telecom-workflows", {}, "use telecom-workflow$"),
    ("tau2", "telecom", {}, "git clone https://github.com/sierra-research/tau2-bench; use env.data_dir="),
    ("textarena", "FrozenLake-v0", {"id": "Sokoban-v0"}, "set env.id=FrozenLake-v0"),
    ("repo_repair", "line-easy", {}, "unknown task 'line-easy' of repo_repair; use lines-easy"),
    ("repo_repair", "legder", {}, "use ledger"),
    ("repo_repair", "all", {"sandbox": "none"}, r"env.sandbox=none .*use env.sandbox=\w+ \(choices: auto, limits\)"),
    ("swegym", "moto-lines-esay", {}, "use moto-lines-easy"),
    ("swegym", "getmoto/moto-test-easy x", {}, "use getmoto/moto-tests-easy"),
    ("swegym", "all", {"provider": "git"}, "env.provider=git needs env.mirror_dir"),
    ("swegym", "all", {"mirror_dir": "/no/such"}, "env.mirror_dir='/no/such': no such folder"),
)


@pytest.mark.parametrize(("name", "task", "settings", "answer"), REFUSED)
def test_what_cannot_be_played_is_one_line(name: str, task: str, settings: Mapping[str, Any], answer: str) -> None:
    with pytest.raises(TaskError, match=answer) as error:
        make_environment(name, settings).parse_task(task)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name != "tau2" and make_environment(name).modules])
def test_a_missing_package_is_named_with_its_fix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = make_environment(name)
    monkeypatch.setitem(sys.modules, environment.modules[0], None)
    fix = environment.install or f'pip install "turngrid[{name}]"'
    with pytest.raises(TaskError, match=re.escape(f"{environment.modules[0].replace('_', '-')}: {fix}")):
        environment.parse_task(shipped("env", name).get("task") or environment.settings.id)


@pytest.mark.parametrize(("name", "task"), [("scienceworld", "boil"), ("textworldexpress", "coin")])
def test_a_missing_java_is_named_with_its_fix(name: str, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(TaskError, match="needs java on the PATH or in JAVA_HOME: apt-get install default-jre-headless"):
        make_environment(name).parse_task(task)
