"""A command line of Hydra's: flags and overrides, with one line for what is neither."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from train.errors import ConfigError


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Hydra's own flags, and ``overrides``.

    Raises:
        ConfigError: a flag that does not exist, or one without its value.
    """
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise ConfigError(_meant(message, [flag for flag in parser._option_string_actions if flag.startswith("--")]))

    parser.error = refuse  # type: ignore[method-assign]
    return parser.parse_args(list(arguments))


def _meant(message: str, flags: Sequence[str]) -> str:
    unknown = re.search(r"(?:unrecognized arguments: |ambiguous option: )(-\S*)", message)
    if unknown is None:
        return message.removeprefix("argument ")
    word = unknown[1].partition("=")[0]
    near = difflib.get_close_matches(word, flags, n=1, cutoff=0.5)
    return f"unknown flag {word}; {f'did you mean {near[0]}?' if near else '--help lists them; settings are KEY=VALUE'}"
