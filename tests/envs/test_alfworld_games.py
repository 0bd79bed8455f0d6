"""Generated games: won by their plans, kept apart, paid by ALFRED's goal conditions, and worded as
alfworld words them."""

import json
import random
from pathlib import Path

import pytest
from alfworld_stock import content, migrated, old, stock_env
from made import played

from turngrid.envs import registry
from turngrid.envs.alfworld import generate, goal, text
from turngrid.envs.alfworld.env import AlfWorldEnv, Engine
from turngrid.envs.alfworld.kinds import TYPES

CONDITIONS = dict(zip(TYPES, (1, 2, 3, 3, 3, 2), strict=True))


def make_environment(**settings):
    return registry.make_environment("alfworld", settings)


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_is_won_by_its_plan_and_paid_in_full(games, kind):
    """Off the plan, the expert knows nothing."""
    task, env = games[kind], make_environment().env(expert=True)
    _, results = played(env, task)
    assert [result.won for result in results] == [False] * (len(results) - 1) + [True]
    assert sum(result.score_delta for result in results) == task.max_score == CONDITIONS[kind]
    assert all(result.valid and result.score_delta >= 0 for result in results)
    conditions = {"goal_conditions": CONDITIONS[kind], "goal_conditions_total": CONDITIONS[kind]}
    assert results[-1].info == {**conditions, "task_type": kind}
    assert played(env, task, ["look"])[1][0].observation.expert == ()


def test_unseen_rooms_are_never_trained_on():
    """The floor plans of the test split and those of all others, for every type."""
    for kind in TYPES:
        unseen, train = (set(generate.floor_plans(kind, flag)) for flag in (True, False))
        assert unseen and train and not unseen & train
    assert make_environment().for_split(make_environment().parse_task("one_type"), "test")["floor_plans"] == "unseen"
    seen = make_environment(test_split="valid_seen")
    for split in ("test", "validation", "train", "demonstrations", "pretraining"):
        assert seen.for_split(seen.parse_task("one_type"), split)["floor_plans"] == "train"


def test_types_come_in_equal_shares_and_can_be_filtered(games):
    assert list(games) != list(TYPES) and set(games) == set(TYPES)
    assert make_environment().parse_task("four_types")["types"] == list(TYPES[:4])
    assert make_environment().parse_task("one_type")["types"] == [TYPES[0]]
    assert make_environment().parse_task("pick_two_obj_and_place")["types"] == [TYPES[5]]
    assert make_environment(task_types=[TYPES[5], TYPES[1]]).parse_task("all_types")["types"] == [TYPES[1], TYPES[5]]


def test_undoing_and_redoing_is_paid_once(games):
    """Taking the thing out again and putting it back: the best state so far is what counts."""
    task, env = games[TYPES[5]], make_environment().env()
    place = next(i for i, action in enumerate(task.expert_plan) if action.startswith("move"))
    thing, receptacle = task.expert_plan[place].removeprefix("move ").split(" to ")
    again = [f"take {thing} from {receptacle}", f"move {thing} to {receptacle}"] * 2
    _, results = played(env, task, [*task.expert_plan[: place + 1], *again])
    assert [result.score_delta for result in results[place:]] == [1, 0, 0, 0, 0]
    assert [result.info["goal_conditions"] for result in results[place:]] == [1, 0, 1, 0, 1]


# ---- the conditions


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
    look = goal.Goal(TYPES[1], "apple", "lamp")
    lamp = {"inreceptacle": {("lamp 1", "desk 1")}, "istoggled": {("lamp 1",)}}
    held, here, there = {("agent1", "apple 2")}, {("agent1", "here")}, {("agent1", "there")}
    assert look.met(facts()) == 0
    assert look.met(facts(holds={("agent1", "egg 1")}, atlocation=here, **lamp)) == 1
    assert look.met(facts(holds=held, atlocation=there, **lamp)) == 1
    assert look.met(facts(holds=held, atlocation=here, inreceptacle=lamp["inreceptacle"])) == 1
    assert look.met(facts(holds=held, atlocation=here, **lamp)) == 2


@pytest.mark.parametrize("kind", TYPES)
def test_all_conditions_hold_exactly_where_the_engine_says_won(games, kind):
    """Along random play around the plan, on the real engine: the outcome is not needed."""
    data, task, rng = content(games[kind]), games[kind], random.Random(kind)
    asked = goal.wanted(task.goal)
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


# ---- the words

LIKE_OTHERS = ("pick_and_place_simple", "pick_clean_then_place_in_recep", "pick_heat_then_place_in_recep")
BANNER = "-= Welcome to TextWorld, ALFRED! =-\n\n"


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind in LIKE_OTHERS else []) for kind in TYPES]
)
def test_the_texts_are_alfworlds_own(games, kind):
    """Before each step of the plan looks of all kinds, and a random command or a senseless one."""
    task, stock, env, rng = games[kind], stock_env(), AlfWorldEnv(legal=True), random.Random(kind)
    stock.load(task.game_file)
    theirs, ours = stock.reset(), env.reset(task, 0)
    assert theirs.feedback == f"{BANNER}{ours.text}\n\nYour task is to: {task.goal}"
    for planned in task.expert_plan:
        looks = [command for command in ours.legal if command.startswith("examine")]
        odd = rng.choice([*ours.legal, "dance with fridge 1"])
        for action in ("look", "inventory", "help", *looks[:2], odd, planned):
            assert list(ours.legal) == theirs["admissible_commands"]
            theirs, _, done = stock.step(action)
            result = env.step(f" {action.capitalize()}.\nlook")  # capitals and a full stop are forgiven
            ours = result.observation
            assert (ours.text, result.won, result.terminated) == (theirs.feedback, theirs["won"], done)
            assert result.valid is (theirs.feedback != "Nothing happens.")
            if done:
                return


@pytest.mark.parametrize(("kind", "form"), [(TYPES[0], migrated), (TYPES[5], old)], ids=["2.1.2", "2.1.1"])
def test_official_files_read_alike(games, tmp_path, kind, form):
    """As they are: the engine itself knows no single grammar, nor where the text of ``help`` is."""
    task, stock, data, ours = games[kind], stock_env(), form(content(games[kind])), Engine()
    file = tmp_path / "game.tw-pddl"
    file.write_text(json.dumps(data))
    stock.load(str(file))
    ours.load(data)
    assert ours.reset() == stock.reset().feedback
    for action in (*["help"] * (form is migrated), *task.expert_plan):
        if action.startswith("move") and form is old:
            action = action.replace("move", "put").replace(" to ", " in/on ")
        assert ours.step(action) == stock.step(action)[0].feedback
    assert ours.won


def test_a_grammar_from_a_file_runs_no_code(games):
    """Expressions of a grammar join attributes of things; anything else is refused before it is
    evaluated."""
    grammar = content(games[TYPES[0]])["grammar"].replace(
        "You close the {r.name}.", "{__import__('os').system('touch /tmp/hacked')}"
    )
    writer = text.Writer(text.parse(grammar), {"x": text.Entity("x", "door 1")}, {"x": "receptacle"})
    assert writer.write("{r.indefinite + ' ' + r.name}", {}, {"r": "x"}) == "a door 1"
    with pytest.raises(ValueError, match="may not hold"):
        writer.write("#CloseObject.feedback#", {}, {"r": "x"})
    with pytest.raises(ValueError, match="may not hold"):
        writer.write("{r.__class__}", {}, {"r": "x"})
    assert not Path("/tmp/hacked").exists()
