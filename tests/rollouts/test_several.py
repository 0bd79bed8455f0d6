"""Several actions of an answer on real games: what runs, what is recorded, and what is replayed."""

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from says import Says
from usual import form_of

from turngrid.envs.registry import make_environment
from turngrid.envs.text_env import NOT_ALLOWED
from turngrid.envs.types import TaskRef
from turngrid.experiments.credit_quality.game import GameTree
from turngrid.records.step_metrics import step_metrics
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.policy import ExpertPolicy, Policy
from turngrid.rollouts.prompt_forms.form import PromptForm, meaning
from turngrid.rollouts.spec import Branch

TEXTWORLD = make_environment("textworld")
TWO = form_of("plain", max_actions=2)


@pytest.fixture
def play(play_spec: Callable[..., Episode], game: TaskRef) -> Callable[..., Episode]:
    def played(policy: Policy | Sequence[str], form: PromptForm = TWO, **more: Any) -> Episode:
        spec = EpisodeSpec(game, TEXTWORLD.prompt, 12, reward("dense"), form=form, **more)
        return play_spec(Says(*policy) if isinstance(policy, list) else policy, spec)

    return played


@pytest.fixture
def plan(game: TaskRef) -> list[str]:
    plan = list(game.expert_plan)
    assert len(plan) == 4
    return plan


@pytest.mark.parametrize("name", ["plain", "think_action", "react", "rlvmr", "hiper"])
def test_two_actions_are_two_turns_of_one(play: Callable[..., Episode], plan: list[str], name: str) -> None:
    one, form = form_of(name), form_of(name, max_actions=2, action_sep=";")
    single = play([one.write(action, "so") for action in plan], one)
    double = play([form.write(f"{plan[0]};{plan[1]}", "so"), form.write(f" {plan[2]} ; {plan[3]}", "so")], form)
    assert single.won and double.won and double.score == single.score == 1.0
    assert [turn.received for turn in double.turns] == [plan[:2], plan[2:]] and double.actions_run == 4
    assert [turn.action for turn in double.turns] == [" ; ".join(plan[:2]), " ; ".join(plan[2:])]
    first, second = (turn.observation for turn in single.turns[1:3])
    assert double.turns[1].observation == f"[1] {first}\n[2] {second}"
    paid = [turn.rewards["dense"] for turn in single.turns]
    assert [turn.rewards["dense"] for turn in double.turns] == pytest.approx([sum(paid[:2]), sum(paid[2:])])
    assert Episode.from_dict(double.to_dict()) == double
    assert form.several in double.messages[0]["content"] and one.several == ""
    counted = [step_metrics([[episode]], "dense") for episode in (single, double)]
    assert [metrics.get("rollout/actions") for metrics in counted] == [None, 4.0]


def test_of_too_many_actions_the_first_run(play: Callable[..., Episode], plan: list[str]) -> None:
    """The answer stays as it was written, the turn counts as invalid, and the policy learns why."""
    answer = " || ".join(plan[:3])
    episode = play([answer, plan[2]])
    turn, after = episode.turns[:2]
    assert (turn.received, turn.dropped, turn.valid, turn.parsed) == (plan[:2], 1, False, True)
    assert turn.response == answer == episode.messages[1]["content"]
    assert after.observation.endswith("\n(the other actions did not run: an answer may have 2)") and after.valid
    episode = play([f"Action: {answer}"], form_of("react", max_actions=2, too_many="unparsed", require_thought=False))
    assert (episode.turns[0].action, episode.turns[0].parsed, episode.turns[0].score_delta) == ("", False, 0.0)


def test_calls_are_actions_too_unless_they_are_the_only_ones() -> None:
    search, bfcl = (make_environment(name).prompt.names_one_action for name in ("search", "bfcl"))
    call, three = '{"name": "look", "arguments": {}}', '{"name": "look"}\n{"name": "look"} {"name": "look"}'
    one, two = (meaning(form, three, (), apart=search) for form in (form_of("plain"), TWO))
    assert (one["action"], one["actions"], one["dropped"]) == (call, [], 2)
    assert (two["actions"], two["dropped"]) == ([call, call], 1)
    assert meaning(TWO, three, (), apart=bfcl)["action"] == three


def test_an_action_that_is_not_understood_stops_the_others(play: Callable[..., Episode], plan: list[str]) -> None:
    stops = play([f"dance||{plan[0]}", f"{plan[0]}||quit"])
    assert [turn.received for turn in stops.turns[:2]] == [["dance"], [plan[0], "quit"]]
    assert [turn.valid for turn in stops.turns[:3]] == [False] * 3
    assert stops.turns[1].observation.endswith("\n(the other actions did not run)")
    assert NOT_ALLOWED in stops.turns[2].observation and "did not run" not in stops.turns[2].observation
    runs = play([f"dance || {plan[0]}"], form_of("plain", max_actions=2, stop_at_invalid=False))
    assert runs.turns[0].received == ["dance", plan[0]] and not runs.turns[0].valid


def test_what_follows_a_win_does_not_run(play: Callable[..., Episode], plan: list[str]) -> None:
    episode = play([*plan[:3], f"{plan[3]} || look || look"])
    assert episode.won and episode.turns[-1].received == plan[3:] and episode.turns[-1].valid


@pytest.mark.parametrize(("most", "received"), [(4, [2, 1, 1]), (3, [2, 1]), (2, [2]), (1, [1])])
def test_an_episode_may_have_a_limit_of_actions(play: Callable[..., Episode], most: int, received: list[int]) -> None:
    episode = play(["look || look", "look", "look || look || look"], max_actions=most)
    assert [turn.ran for turn in episode.turns] == received and episode.outcome is Outcome.OUT_OF_TURNS
    assert episode.actions_run == most


def test_separators_alone_are_no_action(play: Callable[..., Episode]) -> None:
    episode = play(["||", " || look ||", "look"])
    assert [turn.received for turn in episode.turns[:3]] == [["||"], ["look"], ["look"]]
    assert [turn.valid for turn in episode.turns[:3]] == [False, True, True]


@pytest.mark.parametrize(("packed", "turns"), [(None, 2), (1, 4), (3, 2)])
@pytest.mark.parametrize("name", ["plain", "react", "hiper"])
def test_a_demonstration_has_the_plan_in_fewer_turns(
    play: Callable[..., Episode], plan: list[str], name: str, packed: int | None, turns: int
) -> None:
    form = form_of(name, max_actions=packed or 2, demo_max_actions=packed)
    episode = play(ExpertPolicy(), form)
    assert episode.won and len(episode.turns) == turns
    assert [action for turn in episode.turns for action in turn.received] == plan


@pytest.mark.parametrize("name", ["plain", "think_action"])
def test_replays_repeat_the_actions(play: Callable[..., Episode], plan: list[str], game: TaskRef, name: str) -> None:
    """In a branch, as a prefix of the expert's, and where the value of a state is measured."""
    form = form_of(name, max_actions=2)
    answers = [form.write(action, "so") for action in ("look || inventory || look", f"dance || {plan[0]}", plan[0])]
    parent = play(answers, form)
    branch = Branch(0, tuple(parent.turns[:3]), parent.turns[3].observation)
    child = play(answers, form, branch=branch)
    assert child.branched and child.messages[:7] == parent.messages[:7]
    assert [turn.received for turn in child.turns[:3]] == [["look", "inventory"], ["dance"], [plan[0]]]
    shown = play(ExpertPolicy(), form)
    after = play([form.write(plan[2], "so"), form.write(plan[3], "so")], form, prefix=tuple(plan[:2]))
    assert after.won and [turn.received for turn in after.prefix] == [plan[:2]]
    assert after.prefix[0].action == shown.turns[0].action and after.messages[2] == shown.messages[2]
    again = play(answers[2:], form, prefix=(shown.turns[0].action,), answers=(shown.turns[0].response,))
    assert again.messages[:3] == shown.messages[:3]
    with closing(GameTree(TEXTWORLD.env, game)) as tree:
        tree.check([action for turn in parent.turns for action in turn.received])
