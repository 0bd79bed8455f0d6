"""Episodes of several plays, on a real game, and their rewards."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from says import Says
from usual import method

from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.step_metrics import step_metrics
from turngrid.rewards.registry import reward
from turngrid.rewards.reward import TRAINED, RewardView
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.loop import EpisodeSpec

STYLE = make_environment("textworld").prompt
AGAIN = "Incorrect. Please think again."
Play = Callable[..., Episode]


@pytest.fixture
def play(play_spec: Play, game: TaskRef) -> Play:
    def play(policy: object, turns: int = 4, void: str = "", **settings: Any) -> Episode:
        base = EpisodeSpec(game, STYLE, turns, reward("sparse"), void=void)
        spec, _ = method("rollout_form", "attempts", **settings).specs(base, 2, Random(0))
        return play_spec(policy, spec)

    return play


def test_plays_end_by_turns_and_a_win_ends_the_episode(play: Play, game: TaskRef) -> None:
    policy = Says("look", "dance", "look", "look", *game.expert_plan)
    episode = play(policy, turns=4, attempts=5)
    assert episode.plays == ["out_of_turns", "won"] and episode.won and len(episode.turns) == 8
    assert [turn.attempt for turn in episode.turns] == [0] * 4 + [1] * 4
    first, again = (policy.seen[turn][-1]["content"] for turn in (0, 4))
    opening = episode.turns[0].observation
    assert again.startswith(f"{AGAIN}\n{opening}"[:60]) and opening in first
    assert episode.turns[4].observation == f"{AGAIN}\n{opening}"
    assert "won" not in again.lower()
    assert [turn.rewards["sparse"] for turn in episode.turns] == [0.0] * 7 + [1.0] and episode.score == 1.0
    told = step_metrics([[episode]], "sparse")
    assert (told["success/train"], told["success/train_any"], told["rollout/plays"]) == (0.0, 1.0, 2.0)
    assert Episode.from_dict(episode.to_dict()) == episode


def test_a_win_is_followed_by_another_play_if_asked_for(play: Play, game: TaskRef) -> None:
    """And not by a word of it."""
    episode = play(Says(*game.expert_plan, *["look"] * 4), attempts=2, until_won=False)
    assert episode.plays == ["won", "out_of_turns"] and not episode.won and episode.score == 0.0
    assert episode.turns[4].observation == f"{AGAIN}\n{episode.turns[0].observation}"
    told = step_metrics([[episode]], "sparse")
    assert (told["success/train"], told["success/train_any"]) == (1.0, 1.0)


def test_a_void_answer_ends_a_play_alone(play: Play, game: TaskRef) -> None:
    episode = play(Says("dance", *game.expert_plan), void="invalid", attempts=2)
    assert episode.plays == ["lost", "won"] and [turn.attempt for turn in episode.turns] == [0, 1, 1, 1, 1]


def test_the_last_play_ends_the_episode(play: Play, game: TaskRef) -> None:
    episode = play(Says(*["look"] * 6), turns=2, attempts=3)
    assert episode.plays == ["out_of_turns"] * 3 and len(episode.turns) == 6
    assert episode.outcome is Outcome.OUT_OF_TURNS
    episode = play(Says(*game.expert_plan, None), attempts=2, until_won=False)
    assert episode.plays == ["won"] and episode.won and episode.score == 1.0, "a play without a turn does not count"


# ---- rewards


def played(plays: list[str], actions: list[str]) -> Episode:
    """Each play has two turns, of which the last says something else."""
    turns = [Turn("", action, attempt=number) for number, own in enumerate(actions) for action in ("look", own)]
    outcome = Outcome(plays[-1])
    return Episode("t", 1, "train", "win", [], [1], turns, outcome, plays=plays)


def paid(shaping: Any, episode: Episode) -> list[float]:
    rewards = {TRAINED: [9.0] * len(episode.turns)}
    return list(shaping(RewardView(episode, rewards, 1))[TRAINED])


@pytest.mark.parametrize(
    ("plays", "actions", "wanted"),
    [
        (["won"], ["a"], 1.0),
        (["lost", "lost", "won"], ["a", "b", "c"], 0.25),
        (["lost", "lost", "won"], ["a", "a", "c"], 0.08333),
        (["lost"] * 5, ["a", "a", "b", "a", "b"], -0.3),
    ],
)
def test_try_again(plays: list[str], actions: list[str], wanted: float) -> None:
    found = paid(method("shaping", "try_again"), played(plays, actions))
    assert found[-1] == pytest.approx(wanted, abs=1e-5) and not any(found[:-1])


@pytest.mark.parametrize(
    ("plays", "wanted"),
    [
        (["lost", "won"], [0, 0, 0, 11]),
        (["won", "won"], [0, 1, 0, 1]),
        (["won", "out_of_turns"], [0, 1, 0, -10]),
        (["lost", "lost"], [0, 0, 0, 0]),
        (["out_of_context"], [0, 0]),
    ],
)
def test_improvement(plays: list[str], wanted: list[float]) -> None:
    found = paid(method("shaping", "improvement"), played(plays, ["a", "b"][: len(plays)]))
    assert found == pytest.approx(wanted, abs=1e-5)
