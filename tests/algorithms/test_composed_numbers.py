"""The specifications' numbers of methods as a composed config makes them; the other test files have
their corners. Those of credit and of filters are in files of their own, those of losses in
tests/verl_plugin/test_method_losses.py, of estimators in test_methods.py there."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from example_x import example_x, spread
from test_methods_numbers import stored

from turngrid.algorithms.registry import SLOTS
from turngrid.algorithms.turns import Turns
from turngrid.config.compose import Composer
from turngrid.config.method_settings import methods_of
from turngrid.rewards.reward import TRAINED, RewardView
from turngrid.rollouts.episode import Episode, Outcome, Turn

Made = Callable[..., Any]


@pytest.fixture(scope="module")
def chosen(composed: Composer) -> Made:
    """A method with settings, as a run would have it at a step."""

    def chosen(slot: str, name: str, *settings: str, step: int = 1) -> Any:
        words = ["algo=grpo", f"{slot}=[{name}]", *(f"{slot}.{name}.{setting}" for setting in settings)]
        return methods_of(composed(words)).of(slot, step)[name]

    return chosen


# what is chosen, at which step -> what the turns of an episode are paid that was paid 0, 0 and 1
SHAPED = {
    "invalid_action coefficient=0.1": (1, [0, -0.1, 1]),
    "format coefficient=0.5": (1, [0, 0, 0.5]),
    "overlong limit=100 buffer=20": (1, [0, 0, 0.5]),  # of 90 tokens
    "turn_bonus weight=1": (100, [0, 0, 1.15]),  # three turns, halfway
    "turn_bonus": (50, [0, 0, 1 + 0.1 * 0.3 * 0.85355]),
    "subgoals": (1, [-0.1, 0, 0.9]),  # two of three keep theirs: 0.3 x 2/3, spread over them
    "cosine_length tokens=120": (1, [0, 0, 0.9]),  # won, 60 of 120 tokens
    "f1": (1, [0, 0, 1]),  # won, without a score or a plan
    "g_ra levels=[{reward:trained,gate:0.5},{reward:valid,gate:3},{reward:parsed}]": (1, [1, 0, 2]),
}


def played() -> Episode:
    kinds = (("KEEP", True, True), ("SWITCH", False, True), ("KEEP", True, False))
    turns = [
        Turn("", "", [1] * 20, [-1.0] * 20, [2] * 10, rewards={"sparse": float(n == 2)}, valid=valid, parsed=parsed)
        for n, (_, valid, parsed) in enumerate(kinds)
    ]
    for turn, (label, *_) in zip(turns, kinds, strict=True):
        turn.label = label
    return Episode("t", 1, "train", "win", [], [1], turns, Outcome.WON)


@pytest.mark.parametrize("words", SHAPED)
def test_rewards_of_turns(chosen: Made, words: str) -> None:
    (name, *settings), (step, wanted) = words.split(), SHAPED[words]
    rewards = {TRAINED: [0.0, 0.0, 1.0], "valid": [1.0, 0.0, 1.0], "parsed": [1.0, 1.0, 0.0]}
    found = chosen("shaping", name, *settings, step=step)(RewardView(played(), rewards, step))
    assert found[TRAINED] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("score", "turns", "plan", "wanted"),
    [
        (1, 8, 8, 1),
        (1, 16, 8, 2 / 3),
        (0.5, 16, 8, 1 / 3),
        (0, 3, 8, 0),
        (1, 6, 8, 1),
        (0.5, 16, 0, 0.5),  # no plan: the score alone
    ],
)
def test_f1(chosen: Made, score: float, turns: int, plan: int, wanted: float) -> None:
    """Summaries are not counted, replayed turns are."""
    episode = played()
    episode.turns = [*(Turn("", "") for _ in range(turns - 1)), Turn("", "", aside=True)]
    episode.prefix, episode.score = [Turn("", "")], score
    found = chosen("shaping", "f1")(RewardView(episode, {TRAINED: [3.0] * turns}, 1, plan))
    assert found[TRAINED] == pytest.approx([0.0] * (turns - 1) + [wanted], abs=1e-5)


@pytest.mark.parametrize(
    ("tokens", "won", "lost"),
    [(0, 1.1, 0), (25, 1.04142, -0.04393), (50, 0.9, -0.15), (100, 0.7, -0.3), (101, -0.5, -0.5)],
)
def test_cosine_length(chosen: Made, tokens: int, won: float, lost: float) -> None:
    """Of 100 tokens, in two rows."""
    paid = chosen("shaping", "cosine_length", "tokens=100")
    for outcome, wanted in ((Outcome.WON, won), (Outcome.OUT_OF_TURNS, lost)):
        parts = [tokens // 3, tokens - tokens // 3]
        turns = [Turn("", "", [1] * count, context_ids=[2] * 9, prompt_ids=[3]) for count in parts]
        episode = replace(played(), turns=turns, outcome=outcome)
        assert paid(RewardView(episode, {TRAINED: [3.0, 3.0]}, 1))[TRAINED] == pytest.approx([0, wanted], abs=1e-5)


def test_every_reward_transform_has_an_example() -> None:
    """Those of several plays are in tests/rollouts/test_attempts.py."""
    of_plays = {"try_again", "improvement"}
    assert {words.split()[0] for words in SHAPED} == set(SLOTS["shaping"]) - of_plays


@pytest.mark.parametrize(
    ("setting", "wanted"), [("true", [1.25, 1.25, 0]), ("false", [0.5, 0.5, 0])], ids=["std", "no std"]
)
def test_self_imitation(chosen: Made, setting: str, wanted: list[float]) -> None:
    """And with the weight of the middle of its schedule half of that."""
    groups = [(1, [0.25, 0.5, 0, 0.75, 0.5, 1], [0.4, 0.5, 0, 0.4, 0.5, 0])]
    episodes = [vars(stored(score)) for score in (1, 1, 0.25, 0.5, 0)]
    for step, weight in ((100, 1.0), (50, 0.5)):
        buffer = chosen("buffer", "self_imitation", "capacity=1", f"std={setting}", step=step)
        buffer.load({"episodes": episodes, "groups": groups})
        found = [episode.advantage for episode in buffer.take(2)]
        assert found == pytest.approx([weight * number for number in wanted], abs=1e-5)


def without_a_win() -> Turns:
    turns = example_x()
    none = {"reward": turns.reward * 0, "outcome": turns.outcome * 0 + 1}
    return replace(turns, **none, tasks=tuple(name[0] for name in turns.episodes))


def test_task_replay(chosen: Made) -> None:
    """In a group without a win the episode with the lowest score makes way, of equal ones the last
    sample."""
    turns, buffer = without_a_win(), chosen("buffer", "task_replay")
    assert not len(buffer.wanted(turns, spread([0.0] * 7, turns), 1))
    buffer.offer(1, [replace(stored(1.0), task="P")], turns)
    assert [turns.episodes[episode] for episode in buffer.replace(turns, 21)] == ["P_3"]
    assert not buffer.replace(turns, 22)


def test_task_replay_draws_which_episode_makes_way(chosen: Made) -> None:
    """Any of the four, the same again, whatever lies beside them, and another with another seed."""
    turns, drawn = without_a_win(), {}
    for seed in (0, 1):
        buffer = chosen("buffer", "task_replay", "replaced=random", f"seed={seed}")
        buffer.offer(1, [replace(stored(1.0), task="P")], turns)
        drawn[seed] = [turns.episodes[e] for step in range(2, 22) for e in buffer.replace(turns, step)]
    assert set(drawn[0]) == {"P_0", "P_1", "P_2", "P_3"} and len(drawn[0]) == 20
    assert drawn[0] != drawn[1] and drawn[0][:4] == ["P_0", "P_0", "P_1", "P_0"]
