"""What the games show and how they score, along real plays."""

import re
from itertools import accumulate, pairwise

import pytest

from turngrid.envs import registry

JUNK = re.compile(r"\$\$|____|-=|=-|\*\*\*|\n|\t|  |>|Your score|RESTART|Welcome|\d+/\d+")


def play(environment, task, actions=None, **options):
    env = registry.make_environment(environment).env(**options)
    first = env.reset(task, 0)
    results = [env.step(action) for action in (task.expert_plan if actions is None else actions)]
    env.close()
    return first, results


def test_a_expert_plan_wins_and_scores_one_point_at_its_end(custom_games):
    for task in custom_games:
        _, results = play("textworld", task)
        assert [result.score_delta for result in results] == [0.0, 0.0, 0.0, 1.0]
        assert [result.won for result in results] == [False, False, False, True]
        assert results[-1].terminated
        assert task.max_score == 1.0
        assert len(task.expert_plan) == 4


def test_observations_are_one_clean_paragraph(custom_games, simple_games):
    samples = [play("textworld", task) for task in custom_games]
    samples += [play("tw_simple", task) for task in simple_games.values()]
    for first, results in samples:
        for seen in [first, *(result.observation for result in results)]:
            assert not JUNK.search(seen.text), seen.text
            assert re.match(r"You are now in the [a-z' -]+\. ", seen.text)
            assert seen.text.count("You are carrying") == 1
        assert first.goal == results[-1].observation.goal
        assert first.goal
        assert first.goal not in first.text


def test_the_room_then_the_feedback_then_the_inventory(simple_games):
    task = simple_games["dense"]
    first, results = play("tw_simple", task)
    holder = task.expert_plan[0].removeprefix("open ")
    texts = [result.observation.text for result in results]
    assert first.text.endswith("There is a closed wooden door leading east. You are carrying nothing.")
    assert texts[0] == (
        f"You are now in the bedroom. You open the {holder}, revealing an old key. You are carrying nothing."
    )
    assert texts[1] == (
        f"You are now in the bedroom. You take the old key from the {holder}. You are carrying: an old key."
    )
    assert texts[4].startswith("You are now in the kitchen. ")


def test_looking_at_the_inventory_does_not_show_it_twice(custom_games):
    _, [result] = play("textworld", custom_games[0], ["inventory"])
    assert result.observation.text.count("You are carrying") == 1


def test_dense_scores_climb_along_the_expert_plan(simple_games):
    task = simple_games["dense"]
    _, results = play("tw_simple", task)
    scores = list(accumulate(result.score_delta for result in results))
    assert scores[:5] == [1, 2, 3, 4, 5]
    assert all(after >= before for before, after in pairwise(scores))
    assert scores[-1] == task.max_score
    assert results[-1].won


def test_balanced_scores_milestones_and_sparse_the_end(simple_games):
    scores = {}
    for reward in ("balanced", "sparse"):
        _, results = play("tw_simple", simple_games[reward])
        scores[reward] = list(accumulate(result.score_delta for result in results))
    assert scores["balanced"][:5] == [0, 0, 0, 0, 1]
    assert scores["balanced"][-1] == simple_games["balanced"].max_score > 1
    assert scores["sparse"] == [0] * (len(scores["sparse"]) - 1) + [1]


def test_one_seed_is_the_same_house_under_the_three_densities(simple_games):
    """Map, goal, expert plan and every word that is shown; only the points differ."""
    sparse = simple_games["sparse"]
    shown = play("tw_simple", sparse)
    for reward in ("balanced", "dense"):
        task = simple_games[reward]
        assert task.fingerprint == sparse.fingerprint
        assert task.expert_plan == sparse.expert_plan
        assert task.goal == sparse.goal
        assert task.sha256 != sparse.sha256
        first, results = play("tw_simple", task)
        assert first == shown[0]
        assert [r.observation for r in results] == [r.observation for r in shown[1]]
    assert sparse.max_score < simple_games["balanced"].max_score < simple_games["dense"].max_score


def test_eating_the_food_ends_the_game_but_does_not_win_it(simple_games):
    task = simple_games["dense"]
    take = next(i for i, action in enumerate(task.expert_plan) if action.startswith("take") and i > 1)
    food = task.expert_plan[-1].removeprefix("put ").removesuffix(" on stove")
    _, results = play("tw_simple", task, [*task.expert_plan[: take + 1], f"eat {food}"])
    assert results[-1].terminated
    assert results[-1].lost
    assert not results[-1].won
    assert 0 < sum(result.score_delta for result in results) < task.max_score


def test_legal_and_expert_commands_are_extra_and_change_no_text(custom_games):
    task = custom_games[0]
    plain, told = play("textworld", task), play("textworld", task, legal=True, expert=True)
    assert [r.observation.text for r in plain[1]] == [r.observation.text for r in told[1]]
    assert plain[0].text == told[0].text
    assert plain[0].legal == plain[0].expert == ()
    assert task.expert_plan[0] in told[0].legal
    assert told[0].expert == task.expert_plan
    assert told[1][0].observation.expert == task.expert_plan[1:]


@pytest.mark.parametrize(
    ("task", "turns"), [("w2-o3-q4", 12), ("w4-o3-q4", 12), ("w4-o6-q8", 24), ("w8-o12-q16", 24), ("w2-o3-q20", 30)]
)
def test_turn_limits(task, turns):
    assert registry.make_environment("textworld").max_turns(task) == turns


def test_which_rewards_are_offered_and_which_are_equal():
    custom, simple = registry.make_environment("textworld"), registry.make_environment("tw_simple")
    assert custom.rewards == ("sparse", "dense")
    assert simple.rewards == ("sparse", "balanced", "dense")
    assert custom.scores_only_at_end(custom.parse_task("w2-o3-q4"))
    params = simple.parse_task("tw-simple")
    assert simple.scores_only_at_end(simple.with_reward(params, "sparse"))
    assert not simple.scores_only_at_end(simple.with_reward(params, "dense"))


@pytest.mark.parametrize("name", sorted(registry.ENVIRONMENTS))
def test_prompts_are_short(name):
    prompt = registry.make_environment(name).prompt
    assert len(f"{prompt.role} {prompt.how_to_act}".split()) <= 45
    assert "answer with" in prompt.how_to_act.lower()
