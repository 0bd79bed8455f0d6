"""What the games show and how they score, along real plays."""

import re
from contextlib import closing
from itertools import accumulate

from made import played

from turngrid.envs import registry
from turngrid.envs.textworld.environment import TextWorldEnv

JUNK = re.compile(r"\$\$|____|-=|=-|\*\*\*|\n|\t|  |>|Your score|RESTART|Welcome|\d+/\d+")


def play(environment, task, actions=None):
    # Collected while open, TextWorld's game closes its interpreter, which may be gone: a crash.
    with closing(registry.make_environment(environment).env()) as env:
        return played(env, task, actions)


def test_observations_are_one_clean_paragraph(custom_games, simple_games):
    samples = [play("textworld", task) for task in custom_games]
    samples += [play("tw_simple", task) for task in simple_games.values()]
    for first, results in samples:
        for seen in [first, *(result.observation for result in results)]:
            assert not JUNK.search(seen.text), seen.text
            assert re.match(r"You are now in the [a-z' -]+\. ", seen.text)
            assert seen.text.count("You are carrying") == 1
    _, [result] = play("textworld", custom_games[0], ["inventory"])
    assert result.observation.text.count("You are carrying") == 1


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


def test_one_seed_is_the_same_house_under_the_three_densities(simple_games):
    """Map, goal, expert plan and every word that is shown; only the points differ."""
    first, shown = play("tw_simple", simple_games["sparse"])
    scores = {}
    for reward, task in simple_games.items():
        opening, results = play("tw_simple", task)
        assert (opening, task.fingerprint) == (first, simple_games["sparse"].fingerprint)
        assert [r.observation for r in results] == [r.observation for r in shown]
        scores[reward] = list(accumulate(result.score_delta for result in results))
        assert scores[reward][-1] == task.max_score and results[-1].won
    assert len({task.sha256 for task in simple_games.values()}) == 3
    assert scores["sparse"] == [0] * (len(shown) - 1) + [1]
    assert scores["balanced"][:5] == [0, 0, 0, 0, 1] and 1 < scores["balanced"][-1] < scores["dense"][-1]
    assert scores["dense"][:5] == [1, 2, 3, 4, 5] and scores["dense"] == sorted(scores["dense"])


def test_eating_the_food_ends_the_game_but_does_not_win_it(simple_games):
    task = simple_games["dense"]
    take = next(i for i, action in enumerate(task.expert_plan) if action.startswith("take") and i > 1)
    food = task.expert_plan[-1].removeprefix("put ").removesuffix(" on stove")
    _, results = play("tw_simple", task, [*task.expert_plan[: take + 1], f"eat {food}"])
    assert results[-1].terminated and results[-1].lost and not results[-1].won
    assert 0 < sum(result.score_delta for result in results) < task.max_score


def test_turn_limits():
    turns = {"w2-o3-q4": 12, "w4-o3-q4": 12, "w4-o6-q8": 24, "w8-o12-q16": 24, "w2-o3-q20": 30}
    assert {task: registry.make_environment("textworld").max_turns(task) for task in turns} == turns


# ---- in the interpreter alone, and as TextWorld's own layers tell it with all extras

HABITS = ((), ("dance", "go east"), ("inventory", "take all", "look"))  # what else each of three episodes does


def commands(task, habit):
    """The expert's commands, with others before each."""
    return [command for expected in task.expert_plan for command in (*habit, expected)]


def texts(result):
    seen = getattr(result, "observation", result)
    return seen.text, *(getattr(result, name, None) for name in ("score_delta", "won", "over", "valid"))


def by_textworld(task, habit):
    env = TextWorldEnv(legal=True, expert=True)
    told = [texts(env.reset(task, task.seed)), *(texts(env.step(command)) for command in commands(task, habit))]
    env.close()
    return told


def side_by_side(task):
    """Three episodes of one process, a step at a time."""
    envs = [TextWorldEnv() for _ in HABITS]
    told = [[texts(env.reset(task, task.seed))] for env in envs]
    left = [commands(task, habit) for habit in HABITS]
    while any(left):
        for env, own, plan in zip(envs, told, left, strict=True):
            if plan:
                own.append(texts(env.step(plan.pop(0))))
    for env in envs:
        env.close()
    return told


def test_episodes_side_by_side_read_as_textworld_tells_them(custom_games, simple_games):
    for task in (custom_games[0], simple_games["dense"]):
        assert side_by_side(task) == [by_textworld(task, habit) for habit in HABITS]
