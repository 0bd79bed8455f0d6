"""From turns to the trained row, by hand; and to disk and back."""

from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np
import pytest

from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.row import to_rows
from turngrid.rollouts.seeds import request_seed
from turngrid.rollouts.store import read_episodes, write_episodes


def test_round_trip(tmp_path: Path):
    turn = Turn("Küche “x”\n", "öffne", [1], [-0.5], [2], rewards={"sparse": 1.0}, env_seconds=0.25)
    episode = Episode("textworld/t/1", 1, "test", "g", [{"role": "user", "content": "x"}], [9], [turn], Outcome.LOST)
    write_episodes(tmp_path / "a" / "b.jsonl", [episode, episode])
    assert list(read_episodes(tmp_path / "a" / "b.jsonl")) == [episode, episode]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.jsonl"]


def of_turns(*turns: Turn) -> Episode:
    return Episode("t", 1, "train", "g", [], [1, 2, 3], list(turns), Outcome.LOST)


def back(tmp_path: Path, turn: Turn) -> Turn:
    write_episodes(tmp_path / "a.jsonl", [of_turns(turn)])
    (read,) = read_episodes(tmp_path / "a.jsonl")
    return read.turns[0]


def test_entropies_that_only_the_update_reads_are_not_recorded(tmp_path: Path):
    turn = Turn("seen", "look", [1], [-0.5], entropies=[0.25], full_entropies=[0.5])
    assert back(tmp_path, turn) == replace(turn, full_entropies=[]) and turn.full_entropies == [0.5]


def test_what_json_does_not_know_comes_back(tmp_path: Path):
    """Numbers that are none, those of numpy, as a reward of one's own may give them; and half a
    character as the question mark that ``turngrid.envs.hosting.pool`` sends to the game: what a
    policy says must not cost the other episodes their records."""
    rewards = {"mine": np.float64(0.5)}
    turn = Turn("seen", "go \ud800 north", [1, 2], [-float("inf"), float("nan")], rewards=rewards)
    turn.env_seconds = np.float64(0.25)
    read = back(tmp_path, turn)
    assert read.action == "go ? north" and read.logprobs[0] == -float("inf") and isnan(read.logprobs[1])
    assert read.rewards == {"mine": 0.5} and read.env_seconds == 0.25


def test_a_request_is_seeded_by_what_it_is_for():
    seed = request_seed(0, 3, "textworld/w2-o3-q4/30001", 5, 2)
    assert seed == 2800177114761655172  # the same on every machine; a change breaks the repetition of old runs
    others = [(1, 3, "textworld/w2-o3-q4/30001", 5, 2), (0, 4, "textworld/w2-o3-q4/30001", 5, 2)]
    others += [(0, 3, "textworld/w2-o3-q4/30002", 5, 2), (0, 3, "textworld/w2-o3-q4/30001", 6, 2)]
    assert seed not in {request_seed(*other) for other in others}
    assert 0 <= seed < 2**63


# ---- rows


def test_rewards_stand_on_each_turns_last_sampled_token():
    """And turns in text have no behaviour log-probs."""
    turns = [
        Turn("a", "go", [10, 11], [-0.1, -0.2], [90, 91], rewards={"dense": 0.25}),
        Turn("b", "eat", [12], [], [], rewards={"dense": 0.75}, sampled=False),
    ]
    row = to_rows(of_turns(*turns), "dense")[0]
    assert row.prompt_ids == [1, 2, 3]
    assert row.response_ids == [10, 11, 90, 91, 12]
    assert row.mask == [1, 1, 0, 0, 1]
    assert row.logprobs == [-0.1, -0.2, 0.0, 0.0, 0.0]
    assert row.rewards == [0.0, 0.25, 0.0, 0.0, 0.75]


@pytest.mark.parametrize("turns", [[], [Turn("a", "go")]])
def test_nothing_to_learn_from_is_refused(turns: list[Turn]):
    with pytest.raises(ValueError, match="gives no row"):
        to_rows(of_turns(*turns), "sparse")[0]
