"""Fill in, once, the ids of an episode that was played in text, exactly as a model's episode would carry them."""

from __future__ import annotations

from dataclasses import replace

from rollouts.answers import meaning
from rollouts.episode import Episode, Turn
from rollouts.prompt_forms.form import PromptForm
from rollouts.prompt_forms.plain import PLAIN_FORM
from rollouts.stream import TokenStream
from rollouts.window import View, Window


def fill_ids(
    episode: Episode, stream: TokenStream, window: Window | None = None, form: PromptForm | None = None
) -> Episode:
    """A copy with prompt, action and context ids; its turns stay marked as not sampled. Turns before them are part of the prompt.

    ``stream`` is fresh. Messages alternate user, assistant, starting with user. ``window``: as a model would see it. ``form``:
    the one that it was played with, by default the plain one.
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
    opening, users = view.prompt_ids, users[len(prefix) :]
    for number, turn in enumerate(episode.turns):
        if view.full:
            view.slide(_message(form, turn))
        turns.append(_fill(turn, view.begins_with(number), stream, form))
        if number + 1 < len(users):
            turns[-1].context_ids = view.show(users[number + 1])
    return replace(episode, prompt_ids=opening, turns=turns, prefix=prefix)


def _message(form: PromptForm, turn: Turn) -> str:
    return form.message(turn.observation, turn.admissible)


def _fill(turn: Turn, prompt_ids: list[int], stream: TokenStream, form: PromptForm) -> Turn:
    action_ids = stream.encode_action(turn.said)
    stream.add_sampled(action_ids)
    thought = meaning(form, turn.said, (), action_ids, stream)["thought_tokens"]
    told = {"action_ids": action_ids, "context_ids": [], "prompt_ids": prompt_ids, "thought_tokens": thought}
    return replace(turn, sampled=False, **told)
