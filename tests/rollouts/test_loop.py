"""Episodes on real games: who wins, what is recorded, what happens when the environment fails."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from says import Says

from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import EnvError, Observation, StepResult, TaskRef
from turngrid.rewards.registry import named_reward, reward
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.failed_episodes import EpisodeFailed, run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, Session, run_episode
from turngrid.rollouts.policy import ExpertPolicy, RandomPolicy

STYLE = make_environment("textworld").prompt

Play = Callable[[object, EpisodeSpec], Episode]


def spec_for(task: TaskRef, max_turns: int = 12) -> EpisodeSpec:
    return EpisodeSpec(task, STYLE, max_turns, reward("sparse"))


def test_a_expert_plan_of_another_game_is_an_error_and_not_a_loss(play_spec: Play, game: TaskRef):
    task = replace(game, expert_plan=("look", "inventory"))
    with pytest.raises(EpisodeFailed, match="expert plan of 2 steps ended without a win"):
        play_spec(ExpertPolicy(), spec_for(task))


def test_the_random_policy_is_uniform_over_legal_commands_and_repeatable(play_spec: Play, game: TaskRef):
    first, again, other = (play_spec(RandomPolicy(run_seed=seed), spec_for(game, 6)).turns for seed in (3, 3, 4))
    actions = [[turn.action for turn in turns] for turns in (first, again, other)]
    assert actions[0] == actions[1] != actions[2]
    assert all(turn.valid for turn in first)


def test_an_answer_without_an_action_is_not_one_that_was_not_understood(play_spec: Play, game: TaskRef):
    """What is left of the answer after cleaning decides; other rewards are recorded beside the
    chosen one."""
    named = {name: named_reward(name) for name in ("outcome", "parsed", "valid")}
    texts = ("dance", "quit", " \n", "\u5bdd\u308b", *game.expert_plan)
    episode = play_spec(Says(*texts), replace(spec_for(game), named=named))
    assert [(turn.parsed, turn.valid) for turn in episode.turns[:5]] == [
        *[(True, False)] * 2,
        *[(False, False)] * 2,
        (True, True),
    ]
    for number, turn in enumerate(episode.turns):
        won = float(number == len(texts) - 1)
        assert turn.rewards == {"sparse": won, "outcome": won, "parsed": turn.parsed, "valid": turn.valid}


@pytest.mark.parametrize(("void", "turns"), [("", 8), ("unparsed", 3), ("invalid", 1)])
def test_a_void_turn_ends_an_episode_and_loses_it(play_spec: Play, game: TaskRef, void: str, turns: int) -> None:
    """Not understood, not understood, no action, and then a win."""
    texts = ("dance", "quit", " \n", "look", *game.expert_plan)
    episode = play_spec(Says(*texts), replace(spec_for(game), void=void))
    assert (len(episode.turns), episode.outcome) == (turns, Outcome.LOST if void else Outcome.WON)
    assert episode.turns[-1].rewards == {"sparse": float(not void)}
    assert episode.final_observation and not episode.turns[-1].context_ids


@pytest.mark.parametrize(
    ("prefix", "own", "score"), [(("1",), "2", 0.75), (("1", "1"), "-1", 0.25), ((), "-3", 0.0), (("1",), "9", 1.0)]
)
def test_the_score_counts_replayed_turns_and_lies_between_0_and_1(
    game: TaskRef, prefix: tuple[str, ...], own: str, score: float
) -> None:
    """Of a game whose actions are numbers, each worth as many points."""

    async def reset(task: TaskRef, seed: int) -> Observation:
        return Observation("")

    async def step(action: str) -> StepResult:
        return StepResult(Observation(""), float(action), False, False, False, False, True)

    spec = replace(spec_for(replace(game, max_score=4.0), max_turns=1), prefix=prefix)
    points = SimpleNamespace(reset=reset, step=step, finish=None)  # nothing is graded
    assert asyncio.run(run_episode(Says(own), points, spec, None)).score == score


def test_a_reward_that_is_no_number_is_refused_by_its_name(play_spec: Play, game: TaskRef):
    """As a division by a sum of 0 may give it."""
    mine = SimpleNamespace(name="mine", turn_rewards=lambda turns, *_: [0.0] * (len(turns) - 1) + [float("nan")])
    with pytest.raises(ValueError, match=f"reward=mine gave nan to turn {len(game.expert_plan)}"):
        play_spec(ExpertPolicy(), replace(spec_for(game), reward=mine))


def test_a_failed_episode_is_played_again_on_a_fresh_game(runner: asyncio.Runner, pool: EnvPool, game: TaskRef):
    spec, tries = spec_for(game), []

    async def fails_once(session: Session) -> Episode:
        tries.append(session)
        if len(tries) == 1:
            raise EnvError("a hiccup")
        return await run_episode(ExpertPolicy(), session, spec, None)

    episode = runner.run(run_with_retries(pool.open, fails_once))
    assert episode.won and episode.retries == 1
    assert tries[0] is not tries[1]
