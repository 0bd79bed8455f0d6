"""The keys of ``python -m train.play`` that are no part of a run: ``game=3``, or in full ``play.game=3``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from config.errors import ConfigError
from envs.games.catalogue import SPLITS
from envs.utils.names import meant
from records.process.exit_codes import own_words

PREFIX = "play."
LONGEST_S = 3600.0


@dataclass
class PlaySettings:
    """``game`` counts from 1 in the order of the split's seeds. ``watch``: the expert plays. ``delay``: seconds between
    its steps; "" or null: a key press at a terminal, nothing elsewhere."""

    split: str = "test"
    game: int = 1
    watch: bool = False
    delay: str = ""


def split_settings(arguments: Sequence[str]) -> tuple[PlaySettings, list[str]]:
    """Our own keys, and the overrides that are left for the run's config.

    Raises:
        ConfigError: a value that cannot be, or a key that is nearly one of ours.
    """
    settings = PlaySettings()
    words, overrides = own_words([text.removeprefix(PREFIX) for text in arguments], settings, ConfigError)
    if (asked := settings.split) not in SPLITS:
        raise ConfigError(f"unknown split {asked!r}{meant(asked, SPLITS)} (choices: {', '.join(SPLITS)})")
    settings.delay = "" if settings.delay == "null" else settings.delay
    if settings.delay and not _possible(settings.delay):
        raise ConfigError(f"delay={settings.delay} must be a number of seconds from 0 to {LONGEST_S:.0f}, or null")
    return settings, [*words, *overrides]


def _possible(delay: str) -> bool:
    try:
        return 0 <= float(delay) <= LONGEST_S
    except ValueError:
        return False
