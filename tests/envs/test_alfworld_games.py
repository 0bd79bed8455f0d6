"""Generated games: won by their plans, the same everywhere, kept apart, paid by ALFRED's goal
conditions."""

import pytest
from alfworld_stock import content
from made import played

from turngrid.envs import registry
from turngrid.envs.alfworld import generate
from turngrid.envs.alfworld.kinds import TYPES

CONDITIONS = dict(zip(TYPES, (1, 2, 3, 3, 3, 2), strict=True))


def make_environment(**settings):
    return registry.make_environment("alfworld", settings)


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_is_won_by_its_plan_and_paid_in_full(games, kind):
    """The file is in the official form; while the plan is followed, the expert knows its rest."""
    task, env, data = games[kind], make_environment().env(legal=True, expert=True), content(games[kind])
    first, results = played(env, task)
    assert [result.won for result in results] == [False] * (len(results) - 1) + [True]
    assert sum(result.score_delta for result in results) == task.max_score == CONDITIONS[kind]
    assert all(result.valid and result.score_delta >= 0 for result in results)
    conditions = {"goal_conditions": CONDITIONS[kind], "goal_conditions_total": CONDITIONS[kind]}
    assert results[-1].info == {**conditions, "task_type": kind}
    assert task.expert_plan[0] in first.legal and first.expert == task.expert_plan
    assert results[0].observation.expert == task.expert_plan[1:]
    assert played(env, task, ["look"])[1][0].observation.expert == ()
    assert {"pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough"} == set(data)
    assert tuple(data["walkthrough"]) == task.expert_plan and f"Your task is to: {task.goal}" in data["grammar"]


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
