"""Episodes come back from disk as they went."""

from dataclasses import replace
from math import isnan
from pathlib import Path

import numpy as np

from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.seeds import request_seed
from turngrid.rollouts.store import read_episodes, write_episodes


def test_round_trip(tmp_path: Path):
    turn = Turn("Küche “x”\n", "öffne", [1], [-0.5], [2], rewards={"sparse": 1.0}, env_seconds=0.25)
    episode = Episode("textworld/t/1", 1, "test", "g", [{"role": "user", "content": "x"}], [9], [turn], Outcome.LOST)
    write_episodes(tmp_path / "a" / "b.jsonl", [episode, episode])
    assert list(read_episodes(tmp_path / "a" / "b.jsonl")) == [episode, episode]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.jsonl"]


def back(tmp_path: Path, turn: Turn) -> Turn:
    write_episodes(tmp_path / "a.jsonl", [Episode("t", 1, "train", "g", [], [], [turn], Outcome.LOST)])
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
