"""Fill in, once, the ids of an episode that was played in text, exactly as a model's episode would carry them."""

from __future__ import annotations

from dataclasses import replace

from rollouts.episode import Episode, Turn
from rollouts.stream import TokenStream


def fill_ids(episode: Episode, stream: TokenStream) -> Episode:
    """A copy with prompt, action and context ids; its turns stay marked as not sampled.

    ``stream`` is fresh. Messages alternate user, assistant, starting with user.
    """
    users = episode.messages[0::2]
    prompt_ids = stream.start(users[:1])
    turns = [_fill(turn, users[index + 1 : index + 2], stream) for index, turn in enumerate(episode.turns)]
    return replace(episode, prompt_ids=prompt_ids, turns=turns)


def _fill(turn: Turn, following: list[dict[str, str]], stream: TokenStream) -> Turn:
    action_ids = stream.encode_action(turn.action)
    stream.add_sampled(action_ids)
    context_ids = stream.add_context(following) if following else []
    return replace(turn, action_ids=action_ids, context_ids=context_ids, sampled=False)
