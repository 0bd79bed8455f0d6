"""The rewards against numbers worked by hand, and against real plays."""

import pytest

from turngrid.envs import registry as environments
from turngrid.envs.games.catalogue import Catalogue
from turngrid.rewards.registry import REWARDS, reward
from turngrid.rollouts.episode import Turn


def turns(*deltas):
    return [Turn(observation="", action="", score_delta=delta) for delta in deltas]


@pytest.mark.parametrize(
    ("name", "deltas", "won", "max_score", "expected"),
    [
        ("sparse", (0, 0, 1), True, 1, [0, 0, 1]),
        ("sparse", (0, 0, 0), False, 1, [0, 0, 0]),
        ("sparse", (1, 2, 3, 1), True, 7, [0, 0, 0, 1]),
        ("sparse", (1, 2, 3), False, 7, [0, 0, 0]),  # however much was scored
        ("sparse", (5,), True, 5, [1]),
        ("dense", (1, 1, 0, 2), True, 4, [0.25, 0.25, 0, 0.5]),
        ("dense", (1, 1, 0), False, 4, [0.25, 0.25, 0]),
        ("dense", (2, -1, 0), False, 4, [0.5, -0.25, 0]),
        ("dense", (0, 0, 1), True, 1, [0, 0, 1]),
        ("balanced", (0, 1, 0, 2), True, 3, [0, 1 / 3, 0, 2 / 3]),
        ("balanced", (0, 1, 0), False, 3, [0, 1 / 3, 0]),
    ],
)
def test_worked_by_hand(name, deltas, won, max_score, expected):
    assert reward(name).turn_rewards(turns(*deltas), won, max_score) == expected


def test_f1_is_that_of_the_answer():
    answered = [Turn("", "search x", info={"searches": 1}), Turn("", "answer y", info={"f1": 0.5})]
    assert reward("f1").turn_rewards(answered, False, 3.0) == [0, 0.5]
    assert reward("f1").turn_rewards(answered[:1], False, 3.0) == [0]


def test_a_reward_of_another_package_goes_by_its_module():
    """Under which its episodes are recorded, and read again."""
    found = reward("turngrid.rewards.scores:Dense")
    assert found.name == "turngrid.rewards.scores:Dense" and found.turn_rewards(turns(1, 1), False, 4) == [0.25, 0.25]
    assert reward("dense").name == "dense"


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_no_turns_no_rewards(name):
    assert reward(name).turn_rewards([], False, 1.0) == []
    assert reward(name).turn_rewards([], True, 1.0) == []


def test_a_lost_game_never_pays_as_much_as_a_won_one():
    """The released code divides a loss by 1 and a win by its number of rewards; we divide both by
    the maximum."""
    lost = reward("dense").turn_rewards(turns(1, 1, 1, 1, 1, 1, 0), False, 7.0)
    won = reward("dense").turn_rewards(turns(1, 1, 1, 1, 1, 1, 1), True, 7.0)
    assert sum(lost) == pytest.approx(6 / 7)
    assert sum(won) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["dense", "balanced"])
def test_nothing_to_normalise_by_is_an_error(name):
    with pytest.raises(ValueError, match=f"reward {name} divides by the game's maximum score, which is 0"):
        reward(name).turn_rewards(turns(0), False, 0.0)


def test_a_wrong_name_is_answered_with_a_right_one():
    with pytest.raises(ValueError, match="use sparse") as caught:
        reward("spars")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_a_reward_is_called_what_it_is_registered_as(name):
    assert reward(name).name == name


def test_environments_offer_registered_rewards_only():
    for name in environments.ENVIRONMENTS:
        assert set(environments.make_environment(name).rewards) <= set(REWARDS)


@pytest.fixture(scope="module")
def house(game_cache):
    return Catalogue(environments.make_environment("tw_simple"), game_cache).tasks(
        "tw-simple", "test", 1, reward="dense", progress=False
    )[0]


def played(task, actions):
    env = environments.make_environment("tw_simple").env()
    env.reset(task, 0)
    results = [env.step(action) for action in actions]
    env.close()
    scored = [Turn("", action, score_delta=r.score_delta) for action, r in zip(actions, results, strict=True)]
    return scored, results[-1].won


def test_a_real_win_adds_up_to_one_in_every_density(house):
    scored, won = played(house, house.expert_plan)
    assert won
    dense = reward("dense").turn_rewards(scored, won, house.max_score)
    assert sum(dense) == pytest.approx(1.0)
    assert dense[:3] == [1 / house.max_score] * 3
    assert reward("sparse").turn_rewards(scored, won, house.max_score) == [0.0] * (len(scored) - 1) + [1.0]
