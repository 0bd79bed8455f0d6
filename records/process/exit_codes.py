"""How every command of ours begins and ends: its ``--help`` and its own keys, its exit code, and its words on stderr.

    @command(__doc__)
    def main(given: list[str]) -> int:
        ...

An error that a command foresees is a ``Refusal`` or a ``Failure``; any other is a mistake of ours and keeps its traceback.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from envs.types import EnvError, TaskError
from envs.utils.names import nearest
from envs.utils.printable import printable
from rollouts.store import DamagedEpisodes

REFUSED, FAILED, INTERRUPTED = 2, 1, 130
RESUMES = "the same command goes on from here."


class Refusal(ValueError):
    """What was asked for cannot be. The message is one line, and names the nearest thing that can."""


class Failure(RuntimeError):
    """Something that could be was begun and ended badly. The message says where to read more."""


class Main(Protocol):
    """A command."""

    def __call__(self, arguments: Sequence[str] | None = None) -> int: ...


def command(doc: str | None, **how: Any) -> Callable[[Callable[[list[str]], int]], Main]:
    """Makes of a function a command: called with a list of words, or with none for those of the command line, it gives its exit
    code, and every foreseen error is one line on stderr. ``--help`` prints ``doc``. ``how``: as ``exit_code``."""

    def main_of(run: Callable[[list[str]], int]) -> Main:
        @functools.wraps(run)
        def main(arguments: Sequence[str] | None = None) -> int:
            given = list(sys.argv[1:] if arguments is None else arguments)
            if "--help" in given or "-h" in given:
                print(doc)
                return 0
            return exit_code(lambda: run(given), **how)

        return main

    return main_of


def own_words(arguments: Sequence[str], options: Any, error: type[Refusal]) -> tuple[list[str], list[str]]:
    """(words, KEY=VALUE that are none of ours); the keys of ``options``, a dataclass of texts, whole numbers and bools, are set in it.

    Raises:
        Refusal: of the kind ``error``: a flag, a number that is none or below 1, a bool that is neither true nor false, a key that is
            nearly one of these.
    """
    words = [word for word in arguments if "=" not in word or Path(word).exists()]
    if flag := next((word for word in words if word.startswith("-")), None):
        raise error(f"{flag}: only --help; everything else is KEY=VALUE")
    others = []
    for item in (item for item in arguments if item not in words):
        key, _, value = item.partition("=")
        number = isinstance(getattr(options, key, None), int)
        if key not in vars(options):
            if "." not in key and (near := nearest(key, vars(options), cutoff=0.7)):
                raise error(f"unknown key {key}; did you mean {near}?")
            others.append(item)
        elif isinstance(getattr(options, key), bool):
            if value not in ("true", "false"):
                raise error(f"{key}={value} must be true or false")
            setattr(options, key, value == "true")
        elif number and not (value.isdecimal() and int(value) >= 1):
            raise error(f"{key}={value} must be a number of 1 or more")
        else:
            setattr(options, key, int(value) if number else value)
    return words, others


def exit_code(run: Callable[[], int], *, refused: tuple[type[Exception], ...] = (), resumes: bool = True) -> int:
    """``run``; its own exit code, or that of the error that it ended with, once the error has been told.

    Args:
        refused: errors from elsewhere that this command foresees too.
        resumes: the same command again goes on where this one ended, and the user is told so.
    """
    try:
        return run()
    # TaskError: an environment that finds its games cannot be had
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
    """To the user, apart from what a command prints as its result. An error may quote a log, an environment or a
    server."""
    print(f"turngrid: {printable(text)}", file=sys.stderr, flush=True)
