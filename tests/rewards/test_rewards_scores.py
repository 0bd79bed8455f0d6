"""The rewards against numbers worked by hand, and against real plays."""

import pytest

from turngrid.envs import registry as environments
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
        ("dense", (2, -1, 0), False, 4, [0.5, -0.25, 0]),  # as a win, by the maximum, so it never pays as much
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


def test_every_reward_has_its_name_and_none_for_no_turns():
    for name in REWARDS:
        assert reward(name).name == name
        assert reward(name).turn_rewards([], False, 1.0) == reward(name).turn_rewards([], True, 1.0) == []
    for name in ("dense", "balanced"):
        with pytest.raises(ValueError, match=f"reward {name} divides by the game's maximum score, which is 0"):
            reward(name).turn_rewards(turns(0), False, 0.0)
    with pytest.raises(ValueError, match="use sparse"):
        reward("spars")


def test_environments_offer_registered_rewards_only():
    for name in environments.ENVIRONMENTS:
        assert set(environments.make_environment(name).rewards) <= set(REWARDS)
