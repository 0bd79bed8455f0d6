"""Episodes that share a started game: none may see what another did, and none is told other than by TextWorld itself."""

import gc
from ctypes import c_int

import pytest

from envs.textworld.env import TextWorldEnv
from envs.textworld.story import State, Story, Told

HABITS = ((), ("dance", "go east"), ("inventory", "take all", "look"))  # what else each of three episodes does


def commands(task, habit):
    """The expert's, with others before each."""
    return [command for expected in task.expert_plan for command in (*habit, expected)]


def texts(result):
    seen = getattr(result, "observation", result)
    return seen.text, seen.goal, *(getattr(result, name, None) for name in ("score_delta", "won", "over", "valid"))


def alone(task, habit):
    """As TextWorld's own layers tell it."""
    env = TextWorldEnv(legal=True)
    told = [texts(env.reset(task, task.seed)), *(texts(env.step(command)) for command in commands(task, habit))]
    env.close()
    return told


def side_by_side(task):
    """Of three episodes of one process, a step at a time."""
    envs = [TextWorldEnv() for _ in HABITS]
    told = [[texts(env.reset(task, task.seed))] for env in envs]
    left = [commands(task, habit) for habit in HABITS]
    assert len({id(env._game._story) for env in envs}) == 1
    while any(left):
        for env, own, plan in zip(envs, told, left, strict=True):
            if plan:
                own.append(texts(env.step(plan.pop(0))))
    return told


def test_episodes_that_share_a_game_are_told_what_textworld_tells(custom_games, simple_games):
    for task in (custom_games[0], simple_games["dense"]):
        assert side_by_side(task) == [alone(task, habit) for habit in HABITS]


def test_another_seed_is_another_story(custom_games):
    envs = [TextWorldEnv() for _ in range(2)]
    for seed, env in enumerate(envs, start=1):
        env.reset(custom_games[0], seed)
    assert envs[0]._game._story is not envs[1]._game._story


def test_an_interpreter_that_stops_is_started_again_for_the_others(custom_games):
    stopped, other = TextWorldEnv(), TextWorldEnv()
    for env in (stopped, other):
        env.reset(custom_games[0], 1)
    seen = other.step("look")
    other.step("inventory")
    interpreter = stopped._game._story._game
    c_int.in_dll(interpreter.frotz_lib, "emulator_halted").value = 1  # as at a fault in the story file
    assert "halted" in stopped.step("look").observation.text
    assert other.step("look").observation == seen.observation
    assert other.step("inventory").valid


def test_a_step_that_fails_is_the_failing_episodes_alone(custom_games, monkeypatch):
    """The interpreter has moved on by then: what else was to be played from the same state still is, and whoever comes next gets
    another story."""
    task = custom_games[0]
    failing, other, later = (TextWorldEnv() for _ in range(3))
    for env in (failing, other):
        env.reset(task, task.seed)
    story, plan = other._game._story, commands(task, ())
    step = story._game.step

    def fails(command):
        step(command)
        raise OSError("as the interpreter's library may")

    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr(story._game, "step", fails)
        failing.step(plan[0])
    reset, *told = alone(task, ())
    assert [texts(other.step(command)) for command in plan] == told
    assert texts(later.reset(task, task.seed)) == reset
    assert later._game._story is not story
    assert [texts(later.step(command)) for command in plan] == told


def test_a_saved_episode_goes_on_from_there_wherever_others_have_brought_the_interpreter(custom_games):
    task = custom_games[0]
    env, other = TextWorldEnv(), TextWorldEnv()
    for one in (env, other):
        one.reset(task, task.seed)
    first, *rest = commands(task, HABITS[1])
    other.step(first)
    env.step(first)
    saved, after = env.saved(), [texts(env.step(command)) for command in rest]
    for command in rest:
        other.step(command)
        env.restore(saved)
        assert texts(env.step(rest[0])) == after[0]
    assert [texts(env.step(command)) for command in rest[1:]] == after[1:]


def test_the_random_numbers_of_an_episode_are_its_own(custom_games):
    """These games' texts draw none: the interpreter is moved on by hand, as a draw in another episode would."""
    env, other = TextWorldEnv(), TextWorldEnv()
    for one in (env, other):
        one.reset(custom_games[0], 1)
    env.step("look")
    game, own = env._game._story._game, env._game.state.memory[7]
    game.frotz_lib.setRng(4321, 0, 7)
    other._game.state = State(game.get_state(), Told(""))
    other.step("look")
    assert other._game.state.memory[7] != own
    env.step("look")
    assert env._game.state.memory[7] == own
    other.step("look")
    assert other._game.state.memory[7] == (4321, 0, 7)


def test_a_step_that_another_episode_has_just_taken_is_not_taken_again(custom_games):
    envs = [TextWorldEnv() for _ in range(3)]
    for env in envs:
        env.reset(custom_games[0], 1)
    first, second, later = envs
    seen = first.step("look")
    taken = first._game.state
    assert second.step("look") == seen and second._game.state is taken
    for env in (first, second):
        env.step("inventory")
    assert first._game.state is second._game.state is not taken
    del taken
    assert not first._game._story.start.after  # nobody is there any more
    assert later.step("look") == seen


def test_interpreters_of_games_that_nobody_plays_are_used_again(custom_games):
    gc.collect()
    before = {id(interpreter) for interpreter in Story._idle}
    env = TextWorldEnv()
    env.reset(custom_games[1], 1)
    used = env._game._story._game
    env.close()
    assert used is Story._idle[-1]
    assert {id(interpreter) for interpreter in Story._idle} == before | {id(used)}
    env.reset(custom_games[2], 1)
    assert env._game._story._game is used
