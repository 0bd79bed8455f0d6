"""Describe an exception in one line."""

import traceback

from turngrid.envs.types import EnvError


def described(error: BaseException, module: str) -> str:
    """Return ``TYPE: MESSAGE at FILE:LINE: CODE``; for an ``EnvError`` only the message.

    Args:
        module: name the innermost line in this module's top-level package; if there is none, the
            innermost line of all.
    """
    if isinstance(error, EnvError):
        return str(error)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines = traceback.extract_tb(error.__traceback__)
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    own = [line for line, package in zip(lines, packages, strict=True) if package == module.partition(".")[0]]
    places = [f" at {line.filename}:{line.lineno}: {line.line}" for line in own or lines]
    return f"{type(error).__name__}: {error}{places[-1] if places else ''}"
