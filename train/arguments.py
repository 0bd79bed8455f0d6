"""A command line of Hydra's: flags and overrides, with one line for what is neither."""

from __future__ import annotations

import argparse
import re
from collections.abc import Container, Sequence
from pathlib import Path
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from config.errors import ConfigError
from config.overrides import top_names
from envs.utils.names import nearest

ALONE = ("run", "multirun", "cfg", "info", "shell_completion")  # Hydra does one of these


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Hydra's own flags, and ``overrides``.

    Raises:
        ConfigError: a flag that does not exist, one without its value, or one that means nothing here.
    """
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        raise ConfigError(_meant(message, [flag for flag in parser._option_string_actions if flag.startswith("--")]))

    parser.error = refuse  # type: ignore[method-assign]
    if joined := next((word for word in arguments if _joined(word, parser._option_string_actions)), None):
        refuse(f"unrecognized arguments: {joined}")
    args = parser.parse_args(list(arguments))
    _refuse_idle(args)
    return args


def _joined(word: str, flags: Container[str]) -> bool:
    """``-reward.path=x``, which argparse would read as ``-r`` with all the rest as its value."""
    return re.match(r"-\w[^=]+=", word) is not None and word.partition("=")[0] not in flags


def _refuse_idle(args: argparse.Namespace) -> None:
    if args.config_name is not None or args.config_path is not None:
        raise ConfigError("--config-name and --config-path would drop verl's tree; use recipe=NAME or --config-dir")
    if args.experimental_rerun:
        raise ConfigError("--experimental-rerun: give the command of that run again, and it goes on where it stopped")
    several = [name for name in ALONE if getattr(args, name)]
    if len(several) > 1:
        raise ConfigError(f"one of {' and '.join(f'--{name}' for name in several)} at a time".replace("_", "-"))
    if args.config_dir is not None and not (args.config_dir and Path(args.config_dir).expanduser().is_dir()):
        raise ConfigError(f"--config-dir {args.config_dir}: no such folder")
    if (args.package or args.resolve) and not args.cfg:
        raise ConfigError(f"--{'package' if args.package else 'resolve'} is for what --cfg job shows: add it")


def _meant(message: str, flags: Sequence[str]) -> str:
    unknown = re.search(r"(?:unrecognized arguments: |ambiguous option: )(-\S*)", message)
    if unknown is None:
        settings = "; settings stand together, all before the flags or all after them"
        return message.removeprefix("argument ") + (settings if message.startswith("unrecognized") else "")
    word = unknown[1].partition("=")[0]
    if (setting := word.lstrip("-").replace("-", "_")).partition(".")[0] in top_names():
        return f"unknown flag {word}; settings have no dashes: {setting}=VALUE"
    near = nearest(word, flags, cutoff=0.5)
    return f"unknown flag {word}; {f'did you mean {near}?' if near else '--help lists them; settings are KEY=VALUE'}"
