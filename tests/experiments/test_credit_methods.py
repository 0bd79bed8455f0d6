"""Methods by name: what is composed and refused; their numbers are those of a training step."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from turngrid.config.base import CONF
from turngrid.config.errors import ConfigError
from turngrid.experiments.credit_quality.methods import method, methods
from turngrid.records.process.exit_codes import Refusal
from turngrid.rollouts.episode import Episode, Outcome, Turn

PATHS = [  # of two groups: what was seen and done, and the rewards
    [("A x B y C", [0, 1]), ("A x B z D x E", [0, 0, 0]), ("A y D x E", [0, 0]), ("A x B y C", [0, 1])],
    [("A x B y C", [0, 0]), ("A x B z D x E", [0, 0, 1]), ("A y D x E", [0, 0]), ("A y D", [0])],
]
SCORES = np.array([[1, 0, 0, 1], [0, 1, 0, 0]], dtype=float)
TURNS = np.array([[2, 3, 2, 2], [2, 3, 2, 1]])


def episode(path: str, rewards: list[int], windows: bool = False) -> Episode:
    words = path.split()
    turns = [
        Turn(words[2 * t], words[2 * t + 1], action_ids=[5, 6], context_ids=[7], rewards={"sparse": float(reward)})
        for t, reward in enumerate(rewards)
    ]
    if windows:
        turns = [turns[0], *(replace(turn, prompt_ids=[1, 2]) for turn in turns[1:])]
        turns = [replace(turn, context_ids=[]) for turn in turns]
    outcome = Outcome.WON if sum(rewards) else Outcome.LOST
    return Episode("t", 1, "test", "win", [], [1], turns, outcome, final_observation=words[-1])


@cache
def credit(word: str, windows: bool = False) -> np.ndarray:
    return method(word, []).credit(groups(windows)).turns


def groups(windows: bool = False) -> list[list[Episode]]:
    return [[episode(*path, windows=windows) for path in group] for group in PATHS]


def with_values(word: str, windows: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Credit a turn, whose first token has the value V(t) = t / 4 and whose second has V(t) + 1;
    and credit a token."""
    values = np.concatenate([[t / 4, t / 4 + 1] for group in TURNS for count in group for t in range(count)])
    found = method(word, []).credit(groups(windows), {"values": values})
    return found.turns, found.tokens


def every_turn(numbers: np.ndarray) -> np.ndarray:
    return np.repeat(numbers.reshape(-1), TURNS.reshape(-1))


def test_episodes_are_credited_as_the_algorithms_say() -> None:
    centred = SCORES - SCORES.mean(1, keepdims=True)
    assert credit("grpo") == pytest.approx(every_turn(centred / (SCORES.std(1, ddof=1, keepdims=True) + 1e-6)))
    assert credit("grpo:algorithm.norm_adv_by_std_in_grpo=false") == pytest.approx(every_turn(centred))
    assert credit("rloo") == pytest.approx(every_turn(centred * 4 / 3))
    returns = np.repeat(every_turn(SCORES), 2)  # a turn has two tokens
    whitened = (every_turn(SCORES) - returns.mean()) / returns.std(ddof=1)
    assert credit("reinforce_plus_plus") == pytest.approx(whitened, abs=1e-5)


def test_credit_compares_what_a_state_is_said_to_be() -> None:
    """D is met at different turns in the second group; lone turns get nothing."""
    plain, word = credit("rloo"), "rloo+gigpo:std=false"
    step = {state: credit(f"{word}:state={state}") - plain for state in ("observation", "observation+turn")}
    place = TURNS[0].sum() + 2 + 2  # the second episode of the second group in D
    assert step["observation"][place] == pytest.approx(0.5) and step["observation+turn"][place] == pytest.approx(0)
    assert credit(f"{word}:weight=0.5") - plain == pytest.approx(step["observation"] / 2, abs=1e-6)


@pytest.mark.parametrize("word", ["grpo", "gigpo"])
def test_an_episode_of_several_rows_is_one_episode(word: str) -> None:
    assert credit(word, windows=True) == pytest.approx(credit(word), abs=1e-6)


def whitened(numbers: np.ndarray) -> np.ndarray:
    return (numbers - numbers.mean()) / (numbers.std(ddof=1) + 1e-8)


@pytest.mark.parametrize("windows", [False, True])
def test_estimators_see_the_values_of_a_critic(windows: bool) -> None:
    """With lambda 0 a turn's advantage is r + V' - V, and a token's is what the next token's value,
    or the reward, adds."""
    number = np.concatenate([np.arange(count) for count in TURNS.reshape(-1)])
    last = np.r_[number[1:] == 0, True]
    reward = last * every_turn(SCORES)
    following = np.where(last, 0, (number + 1) / 4)
    turns, tokens = with_values("turn_ppo:gamma=1:lam=0", windows)
    assert turns == pytest.approx(whitened(reward + following - number / 4), abs=1e-5)
    assert tokens == pytest.approx(np.repeat(turns, 2), abs=1e-6)
    second = reward + following - number / 4 - 1
    wanted = whitened(np.ravel(np.stack([np.ones(len(second)), second], axis=1)))
    turns, tokens = with_values("ppo:algorithm.lam=0:algorithm.gamma=1", windows)
    assert tokens == pytest.approx(wanted, abs=1e-5)
    assert turns == pytest.approx(wanted.reshape(-1, 2).mean(axis=1), abs=1e-5)


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("gigpp", "use gigpo"),
        ("gigpo:weight", "weight must be KEY=VALUE"),
        ("hiper", "chooses shaping too"),
        (f"distill:teacher={CONF.parent / 'assets' / 'tiny'}", "learns from a teacher"),
        ("dapo", "chooses filter too"),
        ("infopo", "has the policy score other contexts"),
        ("reinforce_plus_plus+gigpo", "gigpo"),
        ("grpo grpo", "grpo is named twice"),
    ],
)
def test_refused(word: str, answer: str) -> None:
    with pytest.raises((Refusal, ConfigError), match=answer):
        methods(word.split(), [])
