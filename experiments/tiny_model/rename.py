"""Rename the things of an episode, the same way in every message, so that a model must read rather than remember."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

from rollouts.prompts import Message

# Words of TextWorld's commands that name no thing.
_WORDS = (
    "take open close unlock lock go drop put insert eat cook slice chop dice from into onto in on with north south east west"
    " examine look inventory the a an of"
)
COMMAND_WORDS = frozenset(_WORDS.split())
WORD = re.compile(r"[a-z]+")


def thing_words(messages: Sequence[Message]) -> set[str]:
    """The words of the episode's actions that name things."""
    actions = (message["content"].lower() for message in messages if message["role"] == "assistant")
    words = {word for action in actions for word in WORD.findall(action)}
    return {word for word in words - COMMAND_WORDS if len(word) > 1}


def rename(
    messages: Sequence[Message], words: Iterable[str], names: Sequence[str], chance: float, rng: random.Random
) -> list[Message]:
    """A lower-case copy in which each of ``words`` was, with ``chance``, exchanged for one of ``names`` throughout."""
    new = {word: rng.choice(names) for word in sorted(words) if rng.random() < chance}
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, new)) + r")\b" if new else r"(?!)")
    texts = (pattern.sub(lambda found: new[found.group(0)], message["content"].lower()) for message in messages)
    return [{**message, "content": text} for message, text in zip(messages, texts, strict=True)]
