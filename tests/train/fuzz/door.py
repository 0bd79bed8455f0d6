"""The front door up to the point where work would start, and what may come of knocking at it."""

from __future__ import annotations

import contextlib
import io
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from unittest import mock

from fuzz.overrides import Command
from omegaconf import DictConfig

from turngrid.config import compose
from turngrid.train import app


@dataclass
class Outcome:
    """``crash``: the end of a traceback. ``configs``: whatever has been composed."""

    code: int | None = None
    out: str = ""
    err: str = ""
    crash: str = ""
    configs: list[DictConfig] = field(default_factory=list)


def knock(command: Command) -> Outcome:
    """All that ``python -m train`` does with the command before it begins to work."""
    outcome = Outcome()
    out, err = io.StringIO(), io.StringIO()
    said = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with _without(command.unset), _nothing_starts(outcome.configs), said[0], said[1]:
        try:
            outcome.code = app.main(command.words)
        except Exception as error:  # noqa: BLE001 - whatever comes out is what is asked about
            outcome.crash = end_of(error)
        except SystemExit as left:  # --version
            outcome.code = 0 if left.code in (None, 0) else None
    outcome.out, outcome.err = out.getvalue(), err.getvalue()
    return outcome


def end_of(error: BaseException) -> str:
    """Where it came from in our own code, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "site-packages" not in frame.filename and "/lib/python" not in frame.filename]
    place = ours[-1]
    said = " ".join(str(error).split())[:150]
    return f"{type(error).__name__}: {said} ({os.path.basename(place.filename)}:{place.lineno} {place.name})"


@contextlib.contextmanager
def _without(names: Sequence[str]) -> Iterator[None]:
    with mock.patch.dict(os.environ):
        for name in names:
            os.environ.pop(name, None)
        yield


@contextlib.contextmanager
def _nothing_starts(configs: list[DictConfig]) -> Iterator[None]:
    ready, finalise = app.ready, compose.finalise

    def begun(arguments: Sequence[str]) -> Callable[[], int]:
        ready(arguments)
        return lambda: 0

    def finished(config: DictConfig) -> DictConfig:
        configs.append(finalise(config))
        return configs[-1]

    with mock.patch.object(app, "ready", begun), mock.patch.object(compose, "finalise", finished):
        yield
