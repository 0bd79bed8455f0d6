"""Common parts of all commands: ``--help``, own keys, exit codes, lines on stderr.

    @command(__doc__)
    def main(given: list[str]) -> int: ...

Foreseen errors are a ``Refusal`` or a ``Failure``; any other exception keeps its traceback.
"""

import functools
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from turngrid.envs.types import EnvError, TaskError
from turngrid.envs.utils.names import nearest
from turngrid.envs.utils.printable import printable
from turngrid.rollouts.store import DamagedEpisodes

REFUSED, FAILED, INTERRUPTED = 2, 1, 130
RESUMES = "the same command goes on from here."


class Refusal(ValueError):
    """The request is impossible; the message is one line with the nearest possible request."""


class Failure(RuntimeError):
    """Something was started and failed; the message names the file with details."""


class Parser(ArgumentParser):
    """Refuses a wrong command line in one line, with its ``usage``."""

    def error(self, message: str) -> NoReturn:
        raise Refusal(f"{message}; use {self.usage}")


def command(doc: str | None, **how: Any) -> Callable[[Callable[[list[str]], int]], Callable[..., int]]:
    """Make a function a command with an exit code; a foreseen error is one line on stderr."""

    def main_of(run: Callable[[list[str]], int]) -> Callable[..., int]:
        @functools.wraps(run)
        def main(arguments: Sequence[str] | None = None) -> int:
            given = list(sys.argv[1:] if arguments is None else arguments)
            if "--help" in given or "-h" in given:
                print(doc)
                return 0
            return exit_code(lambda: run(given), **how)

        return main

    return main_of


def own_words(arguments: Sequence[str], options: Any) -> tuple[list[str], list[str]]:
    """Set a command's own keys in ``options``; return the words and the remaining KEY=VALUE.

    Raises:
        Refusal: a flag, a number below 1, a value that is no bool, or a key similar to an own one.
    """
    words = [word for word in arguments if "=" not in word or Path(word).exists()]
    if flag := next((word for word in words if word.startswith("-")), None):
        raise Refusal(f"{flag}: only --help; everything else is KEY=VALUE")
    others = []
    for item in (item for item in arguments if item not in words):
        key, _, value = item.partition("=")
        kind: Any = type(getattr(options, key, None))
        if key not in vars(options):
            if "." not in key and (near := nearest(key, vars(options), cutoff=0.7)):
                raise Refusal(f"unknown key {key}; use {near}")
            others.append(item)
        elif kind is bool and value not in ("true", "false"):
            raise Refusal(f"{key}={value} must be true or false")
        elif kind is int and not (value.isdecimal() and int(value) >= 1):
            raise Refusal(f"{key}={value} must be a number of 1 or more")
        else:
            setattr(options, key, value == "true" if kind is bool else kind(value))
    return words, others


def exit_code(run: Callable[[], int], *, refused: tuple[type[Exception], ...] = (), resumes: bool = True) -> int:
    """Call ``run`` and return its exit code; a foreseen or ``refused`` error is printed."""
    try:
        return run()
    # TaskError: an environment cannot make its games
    except (Refusal, TaskError, *refused) as error:  # type: ignore[misc]
        say(str(error))
        return REFUSED
    except (Failure, EnvError, DamagedEpisodes) as error:
        say(f"{error}\n{RESUMES.capitalize()}" if resumes else str(error))
        return FAILED
    except KeyboardInterrupt:
        if resumes:
            say(f"interrupted; {RESUMES}")
        return INTERRUPTED


def say(text: str) -> None:
    """Print to stderr, apart from a command's result; control characters are escaped."""
    print(f"turngrid: {printable(text)}", file=sys.stderr, flush=True)
