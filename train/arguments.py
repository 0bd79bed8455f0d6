"""The command line: Hydra's documented flags, and overrides."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import hydra

from turngrid.config.errors import ConfigError

SWITCHES = {  # long -> short
    "--help": "-h",
    "--hydra-help": "",
    "--resolve": "",
    "--run": "-r",
    "--multirun": "-m",
    "--shell-completion": "-sc",
}
VALUES = {
    "--package": "-p",
    "--config-path": "-cp",
    "--config-name": "-cn",
    "--config-dir": "-cd",
    "--experimental-rerun": "",
}
CFG = ("job", "hydra", "all")
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
HINT = "; --help lists the flags; settings are KEY=VALUE without dashes, all before the flags or all after them"
ALONE = ("run", "multirun", "cfg", "info", "shell_completion")  # Hydra does one of these


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        where = HINT if message.startswith("unrecognized") else ""
        raise ConfigError(message.removeprefix("argument ") + where)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False)
    for flag, short in SWITCHES.items():
        parser.add_argument(flag, *([short] if short else []), action="store_true")
    for flag, short in VALUES.items():
        parser.add_argument(flag, *([short] if short else []))
    parser.add_argument("--cfg", "-c", choices=CFG)
    parser.add_argument("--info", "-i", const="all", nargs="?", choices=INFO)
    parser.add_argument("--version", action="version", version=f"Hydra {hydra.__version__}")
    parser.add_argument("overrides", nargs="*")
    return parser


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse Hydra's flags and ``overrides``.

    Raises:
        ConfigError: a flag is unknown, lacks its value, or has no effect here.
    """
    joined = (word for word in arguments if re.match(r"-\w[^=]+=", word))  # -reward.path=x: argparse would read -r
    if word := next((word for word in joined if word.partition("=")[0] not in VALUES.values()), None):
        raise ConfigError(f"unrecognized arguments: {word}{HINT}")
    args = _parser().parse_args(list(arguments))
    _refuse_idle(args)
    return args


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
