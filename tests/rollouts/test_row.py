"""From turns to the trained row, by hand."""

import pytest

from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.row import to_rows


def episode(turns: list[Turn]) -> Episode:
    return Episode("textworld/t/1", 1, "train", "goal", [], [1, 2, 3], turns, Outcome.WON)


def test_rewards_stand_on_each_turns_last_sampled_token():
    turns = [
        Turn("a", "go", [10, 11], [-0.1, -0.2], [90, 91], rewards={"dense": 0.25}),
        Turn("b", "eat", [12], [-0.3], [], rewards={"dense": 0.75}),
    ]
    row = to_rows(episode(turns), "dense")[0]
    assert row.prompt_ids == [1, 2, 3]
    assert row.response_ids == [10, 11, 90, 91, 12]
    assert row.mask == [1, 1, 0, 0, 1]
    assert row.logprobs == [-0.1, -0.2, 0.0, 0.0, -0.3]
    assert row.rewards == [0.0, 0.25, 0.0, 0.0, 0.75]


def test_text_turns_have_no_behaviour_logprobs():
    row = to_rows(episode([Turn("a", "go", [10, 11], [], [], sampled=False)]), "sparse")[0]
    assert row.logprobs == [0.0, 0.0]


@pytest.mark.parametrize("turns", [[], [Turn("a", "go")]])
def test_nothing_to_learn_from_is_refused(turns: list[Turn]):
    with pytest.raises(ValueError, match="gives no row"):
        to_rows(episode(turns), "sparse")[0]
