"""BabyAI's levels: what is seen, what commands do, the bot's plans and the score that they give."""

from pathlib import Path

import pytest
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Door, Key

from turngrid.envs.babyai.env import Guide
from turngrid.envs.babyai.environment import LEVELS
from turngrid.envs.babyai.level import FORWARD, PICK_UP, TOGGLE, Game, commands, described
from turngrid.envs.functions import calls_of
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef

LEFT, RIGHT = 0, 1


def room(*objects: tuple, carrying=None) -> Game:
    """A walled room of 6 x 6 free cells; the agent is in its column 3, row 5, and looks up."""
    game = Game("GoToLocal", 1)
    env = game.env
    env.grid = Grid(8, 8)
    env.grid.wall_rect(0, 0, 8, 8)
    for thing, x, y in objects:
        env.put_obj(thing, x, y)
    env.agent_pos, env.agent_dir, env.carrying = (3, 5), 3, carrying
    game.view = env.gen_obs()["image"].tolist()
    return game


def listed(cache: Path, task: str, count: int, reward: str = "dense", actions: str = "primitive") -> list[TaskRef]:
    catalogue = Catalogue(make_environment("babyai", {"actions": actions}), cache)
    return catalogue.tasks(task, "test", count, reward=reward, workers=1, progress=False)


def test_the_view_in_words_and_the_ways_of_commands() -> None:
    doors = (Door("green", is_locked=True), 4, 0), (Door("grey", is_open=True), 2, 0)
    game = room((Ball("red"), 3, 2), (Ball("red"), 5, 4), (Box("blue"), 2, 5), *doors)
    assert described(game) == (
        "You see blue box 1 (1 left), red ball 1 (3 forward), red ball 2 (1 forward, 2 right), "
        "open grey door 1 (5 forward, 1 left), locked green door 1 (5 forward, 1 right), wall (5 forward), "
        "wall (3 left). You carry nothing."
    )
    way = (FORWARD, LEFT, FORWARD, RIGHT, FORWARD, FORWARD, FORWARD)  # around red ball 1
    assert commands(game, macro=True) == {
        "turn left": (LEFT,),
        "turn right": (RIGHT,),
        "go forward": (FORWARD,),
        "go to blue box 1": (LEFT,),
        "pick up blue box 1": (LEFT, PICK_UP),
        "go to red ball 1": (FORWARD, FORWARD),
        "pick up red ball 1": (FORWARD, FORWARD, PICK_UP),
        "go to red ball 2": (FORWARD, RIGHT, FORWARD),
        "pick up red ball 2": (FORWARD, RIGHT, FORWARD, PICK_UP),
        "go to grey door 1": way,
        "go through grey door 1": (*way, FORWARD, FORWARD),
        "go to green door 1": (RIGHT, FORWARD, LEFT, *[FORWARD] * 4),
    }
    assert set(commands(game, macro=False)) == {"turn left", "turn right", "go forward"}


def test_keys_open_locked_doors_and_hands_hold_one_thing() -> None:
    walls = [(Ball("red"), 2, 5), (Ball("red"), 4, 5)]
    game = room(*walls, (Door("green", is_locked=True), 3, 4), carrying=Key("green"))
    assert described(game).endswith("You carry green key 1.")
    assert commands(game, macro=True) == {
        "turn left": (LEFT,),
        "turn right": (RIGHT,),
        "toggle": (TOGGLE,),
        "open green door 1": (TOGGLE,),
        "go to red ball 1": (LEFT,),
        "go to red ball 2": (RIGHT,),
    }
    assert "toggle" not in commands(room(*walls, (Door("green", is_locked=True), 3, 4), carrying=Key("red")), False)
    game = room(*walls, (Ball("grey"), 3, 4), (Key("red"), 3, 3))
    assert "go to red key 1" not in commands(game, macro=True)  # seen, and no way to it
    assert set(commands(game, macro=False)) == {"turn left", "turn right", "pick up"}


def test_the_start_is_the_whole_grid_and_names_stay_while_things_move() -> None:
    for x, y in ((6, 6), (3, 2)):  # unseen and seen
        assert room((Ball("red"), x, y)).start != room().start == room().start
    game = room((Ball("red"), 3, 4), (Ball("red"), 3, 2))
    described(game)
    for move in (PICK_UP, RIGHT):
        game.play(move)
    assert described(game).endswith("You carry red ball 1.") and game.start != room().start
    game.play(LEFT)
    assert "red ball 2 (3 forward)" in described(game)


@pytest.mark.parametrize("actions", ["primitive", "macro"])
def test_a_dense_point_for_each_move_of_the_bots_plan(actions: str, game_cache: Path) -> None:
    for task in listed(game_cache, "UnlockPickup", 3, actions=actions):
        env = make_environment("babyai", {"actions": actions}).new_env()
        env.reset(task, 0)
        results = [env.step(action) for action in task.expert_plan]
        deltas = [result.score_delta for result in results]
        assert min(deltas) >= 1 and sum(deltas) == task.max_score >= len(deltas) and results[-1].won
        assert (max(deltas) == 1) == (actions == "primitive")


def test_the_score_follows_the_distance_and_a_lost_bot_scores_nothing(game_cache: Path) -> None:
    [task] = listed(game_cache, "UnlockPickup", 1)
    env = make_environment("babyai").new_env()
    env.reset(task, 0)
    undone = {"turn left": "turn right", "turn right": "turn left"}[task.expert_plan[0]]
    for _ in range(2):
        assert env.step(task.expert_plan[0]).score_delta == 1
        assert env.step(undone).score_delta == -1
    assert [env.step(action).won for action in task.expert_plan][-1]


def test_after_an_opened_box_a_new_bot_takes_over() -> None:
    """minigrid's own gives up."""
    game = Game("GoToLocal", 1)
    guide = Guide(game)
    game.env.grid.set(*map(int, game.env.front_pos), Box("red"))
    guide.watch(RIGHT)
    game.play(TOGGLE)
    assert game.ahead is None and guide._bot.prev_fwd_cell.type == "box"
    guide.watch(TOGGLE)
    assert guide.plan()[0]


def test_commands_and_calls(game_cache: Path) -> None:
    [task] = listed(game_cache, "PutNextLocal", 1, actions="macro")
    environment = make_environment("babyai", {"actions": "macro"})
    env = environment.new_env()
    first = env.reset(task, 0).text
    for action, why in {
        "fly": "There is no action 'fly'.",
        "go to red ball 77": "You cannot go to red ball 77 now.",
        "drop": "You cannot drop now.",
        '{"name": "go_to", "arguments": {"thing": "x"}}': "You cannot go to x now.",
    }.items():
        result = env.step(action)
        assert result.observation.text == f"{why} {first}" and not result.valid
    calls = [calls_of(environment.prompt.functions, action)[0] for action in task.expert_plan]
    assert [env.step(str(call)).won for call in calls][-1]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_won_by_the_bot(level: str, tmp_path: Path) -> None:
    assert len(listed(tmp_path, level, 3, reward="sparse")) == 3
