"""Generated games: won by their plans, the same everywhere, kept apart, paid by ALFRED's goal
conditions."""

import pytest
from alfworld_stock import content, one_of_each

from turngrid.envs import registry
from turngrid.envs.alfworld import generate
from turngrid.envs.alfworld.kinds import TYPES
from turngrid.envs.environment import Rejected
from turngrid.envs.hosting.pool import EnvPool
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Outcome
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ExpertPolicy, RandomPolicy

CONDITIONS = dict(zip(TYPES, (1, 2, 3, 3, 3, 2), strict=True))


@pytest.fixture(scope="module")
def games(game_cache):
    return one_of_each(game_cache)


def make_environment(**settings):
    return registry.make_environment("alfworld", settings)


def play(env, task, actions=None):
    env.reset(task, 0)
    return [env.step(action) for action in (task.expert_plan if actions is None else actions)]


@pytest.mark.parametrize("kind", TYPES)
def test_each_type_is_won_by_its_plan_and_paid_in_full(games, kind):
    task, env = games[kind], make_environment().env()
    results = play(env, task)
    assert [result.won for result in results] == [False] * (len(results) - 1) + [True]
    assert all(result.valid for result in results)
    assert sum(result.score_delta for result in results) == task.max_score == CONDITIONS[kind]
    assert all(result.score_delta >= 0 for result in results)
    conditions = {"goal_conditions": CONDITIONS[kind], "goal_conditions_total": CONDITIONS[kind]}
    assert results[-1].info == {**conditions, "task_type": kind}
    assert task.goal and "UNKNOWN" not in task.goal
    env.close()


def test_the_file_is_in_the_official_form(games):
    for task in games.values():
        data = content(task)
        assert {"pddl_domain", "grammar", "pddl_problem", "solvable", "walkthrough"} == set(data)
        assert data["solvable"] is True
        assert tuple(data["walkthrough"]) == task.expert_plan
        assert f"Your task is to: {task.goal}" in data["grammar"]


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
    results = play(env, task, [*task.expert_plan[: place + 1], *again])
    assert [result.score_delta for result in results[place:]] == [1, 0, 0, 0, 0]
    assert [result.info["goal_conditions"] for result in results[place:]] == [1, 0, 1, 0, 1]
    env.close()


def test_a_plan_that_does_not_win_is_rejected(monkeypatch, tmp_path):
    from turngrid.envs.alfworld import problem

    monkeypatch.setattr(problem, "plan", lambda draft: ("look", "inventory"))
    params = make_environment().for_split(make_environment().parse_task("one_type"), "train")
    with pytest.raises(Rejected, match="the expert plan does not win"):
        make_environment().game_record(params, 5, tmp_path)


async def test_running_out_of_turns_is_no_win_and_legal_and_expert_are_filled(games):
    task = games[TYPES[3]]
    style, dense = make_environment().prompt, reward("dense")
    async with EnvPool("alfworld", 1, 30.0, legal=True, expert=True) as pool:
        session = await pool.open()
        first = await session.reset(task, 0)
        assert task.expert_plan[0] in first.legal
        assert first.expert == task.expert_plan
        assert (await session.step(task.expert_plan[0])).observation.expert == task.expert_plan[1:]
        assert (await session.step("look")).observation.expert == ()
        short = EpisodeSpec(task, style, len(task.expert_plan) - 1, dense)
        whole = EpisodeSpec(task, style, 24, dense)
        cut, won, drawn = [
            await run_episode(ExpertPolicy(), session, short, None),
            await run_episode(ExpertPolicy(), session, whole, None),
            await run_episode(RandomPolicy(), session, whole, None),
        ]
    assert (cut.outcome, won.outcome) == (Outcome.OUT_OF_TURNS, Outcome.WON)
    assert sum(turn.rewards["dense"] for turn in cut.turns) == pytest.approx(1 / 3)  # heated, not yet placed
    assert sum(turn.rewards["dense"] for turn in won.turns) == pytest.approx(1)
    assert all(turn.valid for turn in drawn.turns)
    assert len(drawn.turns) == 24
    assert won.messages[0]["content"].count(task.goal) == 1
