"""Rewards of a last turn against the specifications' numbers; those of several plays are in
tests/rollouts/test_attempts.py, and the others in tests/rewards/test_shaping.py."""

from typing import Any

import pytest
from usual import method

from turngrid.algorithms.registry import SLOTS
from turngrid.rewards.shaping.view import TRAINED, RewardView
from turngrid.rollouts.episode import Episode, Outcome, Turn


def paid(shaping: Any, turns: list[Turn], outcome: Outcome = Outcome.WON, plan: int = 0, **about: Any) -> list[float]:
    """For an episode that was paid 3 a turn."""
    episode = Episode("t", 1, "train", "win", [], [1], turns, outcome, **about)
    rewards = {TRAINED: [3.0] * len(turns), "parsed": [float(turn.parsed) for turn in turns]}
    return list(shaping(RewardView(episode, rewards, 1, plan))[TRAINED])


def test_format() -> None:
    found = paid(method("shaping", "format", coefficient=0.5), [Turn("", ""), Turn("", "", parsed=False)])
    assert found == pytest.approx([3.0, 2.5])


@pytest.mark.parametrize(
    ("score", "turns", "plan", "wanted"),
    [
        (None, 3, 0, 1),  # won, without a score or a plan
        (1, 8, 8, 1),
        (1, 16, 8, 2 / 3),
        (0.5, 16, 8, 1 / 3),
        (0, 3, 8, 0),
        (1, 6, 8, 1),
        (0.5, 16, 0, 0.5),  # no plan: the score alone
    ],
)
def test_f1(score: float | None, turns: int, plan: int, wanted: float) -> None:
    """Summaries are not counted, replayed turns are."""
    played = [*(Turn("", "") for _ in range(turns - 1)), Turn("", "", aside=True)]
    found = paid(method("shaping", "f1"), played, plan=plan, prefix=[Turn("", "")], score=score)
    assert found == pytest.approx([0.0] * (turns - 1) + [wanted], abs=1e-5)


@pytest.mark.parametrize(
    ("tokens", "won", "lost"),
    [(0, 1.1, 0), (25, 1.04142, -0.04393), (50, 0.9, -0.15), (100, 0.7, -0.3), (101, -0.5, -0.5)],
)
def test_cosine_length(tokens: int, won: float, lost: float) -> None:
    """Of 100 tokens, in two rows."""
    shaping, parts = method("shaping", "cosine_length", tokens=100), [tokens // 3, tokens - tokens // 3]
    turns = [Turn("", "", [1] * count, context_ids=[2] * 9, prompt_ids=[3]) for count in parts]
    for outcome, wanted in ((Outcome.WON, won), (Outcome.OUT_OF_TURNS, lost)):
        assert paid(shaping, turns, outcome) == pytest.approx([0, wanted], abs=1e-5)


def test_every_reward_transform_has_an_example() -> None:
    elsewhere = {"try_again", "improvement", "invalid_action", "subgoals", "turn_bonus", "overlong", "g_ra"}
    assert {"format", "f1", "cosine_length"} == set(SLOTS["shaping"]) - elsewhere
