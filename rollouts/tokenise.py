"""Fill in, once, the ids of an episode that was played in text, exactly as a model's episode would carry them."""

from __future__ import annotations

from dataclasses import replace

from rollouts.episode import Episode, Turn
from rollouts.prompts import next_message
from rollouts.stream import TokenStream
from rollouts.window import View, Window


def fill_ids(episode: Episode, stream: TokenStream, window: Window | None = None) -> Episode:
    """A copy with prompt, action and context ids; its turns stay marked as not sampled.

    ``stream`` is fresh. Messages alternate user, assistant, starting with user. ``window``: as a model would see it.
    """
    if not episode.turns:
        return replace(episode, prompt_ids=stream.start(episode.messages[:1]))
    users = [message["content"] for message in episode.messages[0::2]]
    turns: list[Turn] = []
    view = View(users[0].removesuffix(next_message(episode.turns[0].observation)), turns, window, stream)
    view.open(users[0])
    opening = view.prompt_ids
    for number, turn in enumerate(episode.turns):
        if view.full:
            view.slide(turn.observation)
        turns.append(_fill(turn, view.begins_with(number), stream))
        if number + 1 < len(users):
            turns[-1].context_ids = view.show(users[number + 1])
    return replace(episode, prompt_ids=opening, turns=turns)


def _fill(turn: Turn, prompt_ids: list[int], stream: TokenStream) -> Turn:
    action_ids = stream.encode_action(turn.action)
    stream.add_sampled(action_ids)
    return replace(turn, action_ids=action_ids, context_ids=[], sampled=False, prompt_ids=prompt_ids)
