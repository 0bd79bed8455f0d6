"""Episodes on real games in each prompt form."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from says import Says
from usual import form_of

from turngrid.envs.registry import make_environment
from turngrid.envs.text_env import NOT_ALLOWED
from turngrid.envs.types import TaskRef
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.policy import ExpertPolicy, Policy, RandomPolicy
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.window import window_of
from turngrid.tasks.early_experience import specs

STYLE = make_environment("textworld").prompt


@pytest.fixture
def play(play_spec: Callable[[object, EpisodeSpec], Episode]) -> Callable[..., Episode]:
    def played(policy: Policy, task: TaskRef, form: PromptForm, **more: Any) -> Episode:
        spec = EpisodeSpec(task, STYLE, 12, reward("sparse"), window=window_of({}, form), form=form, **more)
        return play_spec(policy, spec)

    return played


@pytest.fixture
def ask(play: Callable[..., Episode]) -> Callable[..., tuple[Episode, list[Any]]]:
    """An episode with these answers, and the messages that their policy was shown."""

    def asked(texts: Sequence[str], task: TaskRef, form: PromptForm) -> tuple[Episode, list[Any]]:
        policy = Says(*texts)
        return play(policy, task, form), policy.seen

    return asked


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("name", ["plain", "think_action", "react", "rlvmr"])
def test_an_unparsed_answer_is_told_what_was_wrong(ask: Any, game: TaskRef, name: str, told: bool) -> None:
    """In the form's words, once; prompt=plain leaves it to the environment, and so does
    tell_format=false."""
    form = form_of(name, tell_format=told)
    episode, sent = ask(["", form.write("quit", "so")], game, form)
    assert [turn.parsed for turn in episode.turns[:2]] == [False, True]
    error = form.format_error if told and form.format_error else NOT_ALLOWED
    for seen in (sent[1][-1]["content"], episode.turns[1].observation):
        assert [seen.count(words) for words in (error, NOT_ALLOWED)] == [1, error == NOT_ALLOWED]
    assert NOT_ALLOWED in episode.turns[2].observation, "a verb that is not allowed is called so"


def test_an_unparsed_answer_that_acts_is_told_both(ask: Any, game: TaskRef) -> None:
    """HiPER's unparsed answers go to the environment whole: what they did is told too; a game that
    is won needs no such words."""
    form = form_of("hiper")
    episode, _ = ask(game.expert_plan, game, form)
    seen = [turn.observation for turn in episode.turns[1:]]
    assert episode.won and len(seen) > 2
    assert all(text.startswith(f"{form.format_error}\n") and len(text) > len(form.format_error) + 9 for text in seen)
    assert form.format_error not in episode.final_observation


@pytest.mark.parametrize("form", [form_of("think_action"), form_of("hiper", demo_actions=2)], ids=type)
def test_a_replayed_answer_shows_what_it_said_or_no_later_action(play: Any, game: TaskRef, form: PromptForm) -> None:
    """Early experience sees the demonstration's own words; after a prefix of three actions, nothing
    names the fourth."""
    shown = play(ExpertPolicy(), game, form)
    (spec,) = [one for one in specs(shown, EpisodeSpec(game, STYLE, 1, form=form), 1) if len(one.prefix) == 3]
    told = play(RandomPolicy(), game, form, prefix=spec.prefix, answers=spec.answers)
    assert told.messages[:7] == shown.messages[:7] and len(told.prefix) == 3
    untold = play(RandomPolicy(), game, form, prefix=spec.prefix)
    assert untold.messages[:7] != shown.messages[:7]
    assert not any(game.expert_plan[3] in message["content"] for message in untold.messages[1:6:2])


@pytest.mark.parametrize("history", [None, 1])
def test_admissible_actions_are_listed_in_every_message(ask: Any, game: TaskRef, history: int | None) -> None:
    """And in none where that was not asked for, even after an answer without an action."""
    form = form_of("react", admissible=True, history=history)
    answers = [form.write(action, "so") for action in game.expert_plan]
    episode, sent = ask(["what?", *answers], game, form)
    assert episode.won and len(sent) == len(episode.turns) == len(answers) + 1
    for turn, messages in zip(episode.turns, sent, strict=True):
        assert turn.admissible == sorted(turn.admissible) and len(turn.admissible) > 2
        listed = f"\nAdmissible actions: {', '.join(turn.admissible)}\nYour thought"
        assert listed in messages[-1]["content"] and messages[-1]["content"].count("Admissible") == 1
    assert all(action in turn.admissible for action, turn in zip(game.expert_plan, episode.turns[1:], strict=True))
    plain, sent = ask(answers, game, form_of("react"))
    assert not any(turn.admissible for turn in plain.turns) and "Admissible" not in str(sent)
