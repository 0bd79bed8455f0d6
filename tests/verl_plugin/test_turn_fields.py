"""What a row tells of its turns."""

import pytest
import torch

from turngrid.algorithms.registry import STATES
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.verl_plugin.rollout.turn_fields import text_hash, turn_fields

TURNS = [
    Turn("a room ", "go east", rewards={"sparse": 0.0}),
    Turn("a hall", "", valid=False, parsed=False, rewards={"sparse": 0.0}),
    Turn("a room", "go east", rewards={"sparse": 1.0}),
]
EPISODE = Episode("t", 1, "train", "win", [], [1], TURNS, Outcome.WON, final_observation="outside")


@pytest.mark.parametrize(
    ("ids", "text", "wanted"),
    [
        (list(range(20)) * 10, "go", 1),
        (list(range(20)) * 9 + list(range(19)), "go", 0),
        ([7] * 29, "go", 1),
        ([7] * 28, "go", 0),
        ([7], "go \N{REPLACEMENT CHARACTER}", 1),
    ],
)
def test_what_is_garbled(ids: list[int], text: str, wanted: int) -> None:
    babbling = Episode(**{**vars(EPISODE), "turns": [*EPISODE.turns, Turn("a hall", text, action_ids=ids)]})
    assert turn_fields(babbling, 2, 4, "observation")["turn_garbled"].tolist() == [0, wanted]


def test_turn_fields() -> None:
    fields = turn_fields(EPISODE, 0, 3, "observation")
    state, after = fields["turn_state"].tolist(), fields["turn_after"].tolist()
    assert state[0] == state[2] == text_hash("a room") and after == [state[1], state[2], text_hash("outside")]
    assert fields["turn_action"][0] == fields["turn_action"][2] != fields["turn_action"][1]
    assert fields["turn_valid"].tolist() == fields["turn_parsed"].tolist() == [1, 0, 1]
    assert fields["turn_outcome"].tolist() == [0]
    assert not [name for name in fields if "named" in name] and not fields["turn_aside"].any()
    assert turn_fields(EPISODE, 1, 3, "observation", ["sparse"])["turn_named_sparse"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("state", STATES)
def test_a_window_tells_the_same_as_the_whole_episode(state: str) -> None:
    whole = turn_fields(EPISODE, 0, 3, state)
    parts = [turn_fields(EPISODE, 0, 1, state), turn_fields(EPISODE, 1, 3, state)]
    for name, column in whole.items():
        if name != "turn_outcome":
            assert torch.equal(column, torch.cat([part[name] for part in parts]))


def test_what_a_state_is() -> None:
    history = turn_fields(EPISODE, 0, 3, "history")["turn_state"].tolist()
    with_goal = turn_fields(EPISODE, 0, 3, "observation+goal")["turn_state"].tolist()
    assert len(set(history)) == 3 and history[0] == text_hash("a room")
    assert with_goal[0] == with_goal[2] != text_hash("a room")
    fields = turn_fields(EPISODE, 0, 3, "observation+turn")
    numbered = fields["turn_state"].tolist()
    assert numbered[0] != numbered[2] and fields["turn_after"].tolist()[:2] == numbered[1:]
