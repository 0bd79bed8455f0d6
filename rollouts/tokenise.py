"""Fill in, once, the ids of an episode that was played in text, exactly as a model's episode would carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from rollouts.answers import meaning
from rollouts.episode import Episode, Turn
from rollouts.prompt_forms.form import PromptForm
from rollouts.prompt_forms.plain import PLAIN_FORM
from rollouts.stream import TokenStream
from rollouts.summaries import Summaries
from rollouts.window import View, Window


def fill_ids(
    episode: Episode, stream: TokenStream, window: Window | Summaries | None = None, form: PromptForm | None = None
) -> Episode:
    """A copy with prompt, action and context ids; its turns stay marked as not sampled. Turns before them are part of the prompt.

    ``stream`` is fresh. Messages alternate user, assistant, starting with user. ``window``: as a model would see it; where it is to be
    summed up the actions so far are the summary, unless the episode has summaries of its own. ``form``: the one that it was played
    with, by default the plain one.
    """
    form = form or PLAIN_FORM
    if not episode.turns:
        return replace(episode, prompt_ids=stream.start(episode.messages[:1]))
    users = [message["content"] for message in episode.messages[0::2]]
    turns: list[Turn] = []
    prefix = [replace(turn) for turn in episode.prefix]
    first = _message(form, [*prefix, *episode.turns][0])
    view = View(form, users[0].removesuffix(first), turns, window, stream)
    view.open(first)
    for turn, content in zip(prefix, users[1:], strict=False):
        view.replay(turn, content)
    opening, users, played = view.prompt_ids, users[len(prefix) :], episode.played_turns
    for number, turn in enumerate(played):
        if view.full:
            view.slide(_message(form, turn))
        turns.append(_fill(turn, view.begins_with(len(turns)), stream, form))
        if number + 1 == len(users):
            break
        summary = _summary(episode, number + 1, view, turns) if number + 1 < len(played) else None
        if isinstance(window, Summaries) and summary is not None:
            _sum_up(window, summary, played[number + 1].observation, turns, view, stream)
            view.begin_with(window.told(summary), users[number + 1])
        else:
            turns[-1].context_ids = view.show(users[number + 1])
    return replace(episode, prompt_ids=opening, turns=turns, prefix=prefix)


def _summary(episode: Episode, number: int, view: View, turns: Sequence[Turn]) -> str | None:
    """What the policy said after so many turns, or would be made to say; None: nothing."""
    before = list(accumulate(int(not turn.summary) for turn in episode.turns))
    own = {count: turn.said for count, turn in zip(before, episode.turns, strict=True) if turn.summary}
    rules = view.to_be_summed_up
    made = rules.demonstrate(turns) if rules and rules.left(turns) and not own else None
    return own.get(number, made)


def _sum_up(
    rules: Summaries, summary: str, observation: str, turns: list[Turn], view: View, stream: TokenStream
) -> None:
    turns[-1].context_ids = view.show(rules.ask(observation))
    ids = stream.encode_action(summary)
    stream.add_sampled(ids)
    turns.append(Turn(observation, summary, ids, sampled=False, summary=True))


def _message(form: PromptForm, turn: Turn) -> str:
    return form.message(turn.observation, turn.admissible)


def _fill(turn: Turn, prompt_ids: list[int], stream: TokenStream, form: PromptForm) -> Turn:
    action_ids = stream.encode_action(turn.said)
    stream.add_sampled(action_ids)
    meant = meaning(form, turn.said, (), action_ids, stream)
    told = replace(turn, sampled=False, action_ids=action_ids, context_ids=[], prompt_ids=prompt_ids)
    return replace(told, thought_tokens=meant["thought_tokens"], spans=meant["spans"])
