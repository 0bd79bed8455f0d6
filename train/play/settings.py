"""The keys of ``python -m train.play`` that are no part of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from config.errors import ConfigError
from envs.catalogue import SPLITS
from envs.names import meant
from records.process.exit_codes import own_words


@dataclass
class PlaySettings:
    """``game`` counts from 1 in the order of the split's seeds. ``watch``: the expert plays. ``delay``: seconds between
    its steps; "": a key press at a terminal, nothing elsewhere."""

    split: str = "test"
    game: int = 1
    watch: bool = False
    delay: str = ""


def split_settings(arguments: Sequence[str]) -> tuple[PlaySettings, list[str]]:
    """Our own keys, and the overrides that are left for the run's config.

    Raises:
        ConfigError: a value that cannot be.
    """
    settings = PlaySettings()
    words, overrides = own_words(arguments, settings, ConfigError)
    if (asked := settings.split) not in SPLITS:
        raise ConfigError(f"unknown split {asked!r}{meant(asked, SPLITS)} (choices: {', '.join(SPLITS)})")
    if not re.fullmatch(r"(\d{1,4}(\.\d*)?)?", settings.delay):
        raise ConfigError(f"delay={settings.delay} must be a number of seconds, such as 0.5")
    return settings, [*words, *overrides]
