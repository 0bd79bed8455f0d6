"""Episodes that an expert plan judges, on a real game."""

from collections.abc import Callable
from random import Random

import pytest
from says import Says
from usual import method

from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.step_metrics import step_metrics
from turngrid.rewards.registry import PLAN_SHARE, named_reward, reward
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.forms.semi_online import SemiOnline
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.policy import ExpertPolicy

STYLE = make_environment("textworld").prompt
WRONG = "dance"
Play = Callable[..., Episode]


@pytest.fixture
def play(play_spec: Play, game: TaskRef) -> Play:
    def play(policy: object, form: SemiOnline | None) -> Episode:
        spec = EpisodeSpec(game, STYLE, 30, reward("sparse"), named={PLAN_SHARE: named_reward(PLAN_SHARE)})
        if form:
            spec, _ = form.specs(spec, 2, Random(0))
        return play_spec(policy, spec)

    return play


def shares(episode: Episode) -> list[float]:
    return [turn.rewards[PLAN_SHARE] for turn in episode.turns]


def test_the_expert_matches_its_plan(play: Play, game: TaskRef) -> None:
    episode = play(Says(*game.expert_plan), method("rollout_form", "semi_online"))
    assert episode.won and shares(episode) == [0.25] * len(game.expert_plan) == [0.25] * 4
    assert not any(turn.patch for turn in episode.turns) and not episode.whole


def test_a_patch_takes_the_answers_place_and_the_plan_goes_on(play: Play, game: TaskRef) -> None:
    """The policy sees the expert's observations, its answers and, where wrong, the expert's."""
    plan = game.expert_plan
    policy = Says(plan[0], WRONG, *plan[2:])
    episode = play(policy, method("rollout_form", "semi_online"))
    assert [turn.action for turn in episode.turns] == [plan[0], WRONG, *plan[2:]]
    assert [turn.patch for turn in episode.turns] == ["", plan[1], "", ""]
    assert shares(episode) == [0.25, 0, 0.25, 0.25] and episode.outcome is Outcome.LOST
    expert = play(ExpertPolicy(), None)
    assert [turn.observation for turn in episode.turns] == [turn.observation for turn in expert.turns]
    assert [turn.ran for turn in episode.turns] == [1, 0, 1, 1]
    answered = [[message["content"] for message in messages[1::2]] for messages in policy.seen]
    assert answered[3] == list(plan[:3]) and answered[1] == [plan[0]]
    assert Episode.from_dict(episode.to_dict()) == episode


@pytest.mark.parametrize(("patches", "turns"), [(0, 1), (1, 2), (2, 3), (-1, 4)])
def test_the_next_wrong_answer_ends_the_episode(play: Play, patches: int, turns: int) -> None:
    episode = play(Says(*[WRONG] * 4), method("rollout_form", "semi_online", patches=patches))
    assert (len(episode.turns), episode.outcome) == (turns, Outcome.LOST) and not any(shares(episode))
    told = step_metrics([[episode]], "sparse")
    assert (told["rollout/matched"], told["rollout/patches"]) == (0.0, min(turns - (patches >= 0), 3))
    assert "success/train" not in told


def test_an_action_with_the_experts_effect_may_count(play: Play, game: TaskRef) -> None:
    """Case differs, which TextWorld does not mind; a wrong one is still wrong."""
    spelled = [action.upper() for action in game.expert_plan]
    assert not any(shares(play(Says(*spelled), method("rollout_form", "semi_online"))))
    episode = play(Says(*spelled[:2], WRONG, spelled[3]), method("rollout_form", "semi_online", accept="same_after"))
    assert shares(episode) == [0.25, 0.25, 0, 0.25] and not episode.won
    assert play(Says(*spelled), method("rollout_form", "semi_online", accept="same_after")).won
