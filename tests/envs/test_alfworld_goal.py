"""What a game asks for, read from its PDDL, and how much of it holds."""

import random

import pytest
from alfworld_stock import content

from turngrid.envs.alfworld import games as alfworld_games
from turngrid.envs.alfworld import goal, problem, wheel
from turngrid.envs.alfworld.engine import Engine
from turngrid.envs.alfworld.kinds import TYPES


def parsed(kind, **names):
    words = {"obj": "Apple", "recep": "DiningTable", "toggle": "DeskLamp", "mrecep": "Bowl", **names}
    template = problem.mangle(wheel.goals()[kind]["pddl"].format(**words))
    return goal.parse(goal.read(f"(define (problem p) (:domain alfred) {template}"))


@pytest.mark.parametrize("kind", TYPES)
def test_the_six_goals_are_recognised_from_alfworlds_own_templates(kind):
    found = parsed(kind)
    assert (found.task_type, found.target) == (kind, "apple")
    assert (found.receptacle, found.lamp) == (("", "desklamp") if kind == TYPES[1] else ("diningtable", ""))


def test_other_goals_and_broken_pddl_are_refused():
    """Movable receptacles, slices, three things or all of a type: alfworld's games have none."""
    for kind in sorted(set(wheel.goals()) - set(TYPES)):
        with pytest.raises(ValueError, match="not one of the six"):
            parsed(kind)
    broken = {"": "empty", "(define (problem p)": "ends in the middle", "(a))": "bracket too many"}
    for text, message in {**broken, "(define (problem p) (:init))": "not one of the six"}.items():
        with pytest.raises(ValueError, match=message):
            goal.parse(goal.read(text))


def facts(**more):
    things = ("apple 1", "apple 2", "egg 1", "lamp 1")
    return {
        "objecttype": {(thing, f"{thing.split()[0]}type") for thing in things},
        "receptacletype": {("table 1", "tabletype"), ("table 2", "tabletype"), ("desk 1", "desktype")},
        "heatable": {("apple 1",), ("apple 2",)},
        "toggleable": {("lamp 1",)},
        "receptacleatlocation": {("desk 1", "here"), ("table 1", "there")},
        **more,
    }


def test_conditions_of_a_heated_thing():
    """In place, hot, and one that is both: ALFRED's three."""
    hot = goal.Goal(TYPES[3], "apple", "table")
    assert hot.total == 3
    assert hot.met(facts()) == 0
    assert hot.met(facts(inreceptacle={("apple 1", "desk 1"), ("egg 1", "table 1")}, ishot={("egg 1",)})) == 0
    assert hot.met(facts(inreceptacle={("apple 1", "table 1")})) == 1
    assert hot.met(facts(inreceptacle={("apple 1", "desk 1")}, ishot={("apple 2",)})) == 1
    assert hot.met(facts(inreceptacle={("apple 1", "table 1")}, ishot={("apple 2",)})) == 2
    assert hot.met(facts(inreceptacle={("apple 1", "table 1")}, ishot={("apple 1",)})) == 3


def test_two_things_count_in_one_receptacle():
    two = goal.Goal(TYPES[5], "apple", "table")
    assert two.met(facts(inreceptacle={("apple 1", "table 1"), ("apple 2", "table 2")})) == 1
    assert two.met(facts(inreceptacle={("apple 1", "table 1"), ("egg 1", "table 1")})) == 1
    assert two.met(facts(inreceptacle={("apple 1", "table 2"), ("apple 2", "table 2")})) == 2


def test_light_needs_the_thing_in_hand_and_the_lamp_where_one_stands():
    look = goal.Goal(TYPES[1], "apple", lamp="lamp")
    lamp = {"inreceptacle": {("lamp 1", "desk 1")}, "istoggled": {("lamp 1",)}}
    held, here, there = {("agent1", "apple 2")}, {("agent1", "here")}, {("agent1", "there")}
    assert look.met(facts()) == 0
    assert look.met(facts(holds={("agent1", "egg 1")}, atlocation=here, **lamp)) == 1
    assert look.met(facts(holds=held, atlocation=there, **lamp)) == 1
    assert look.met(facts(holds=held, atlocation=here, inreceptacle=lamp["inreceptacle"])) == 1
    assert look.met(facts(holds=held, atlocation=here, **lamp)) == 2


@pytest.mark.parametrize("kind", TYPES)
def test_all_conditions_hold_exactly_where_the_engine_says_won(games, kind):
    """Along random play around the plan, on the real engine: the count needs no help from the
    outcome."""
    data, task, rng = content(games[kind]), games[kind], random.Random(kind)
    _, asked = alfworld_games.goal_of(data)
    assert asked.task_type == kind
    engine = Engine()
    engine.load(data)
    seen = set()
    for detours in (True, True, True, False):
        engine.reset()
        for action in task.expert_plan:
            for command in (*[rng.choice(sorted(engine.commands))] * detours, action):
                engine.step(command)
                seen.add(asked.met(engine.facts))
                assert (asked.met(engine.facts) == asked.total) is engine.won
    assert engine.won
    assert {0, asked.total} <= seen <= set(range(asked.total + 1))
