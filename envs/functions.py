"""Functions for tool calls, which stand for commands with arguments (``prompt=tool_call``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any


@dataclass(frozen=True)
class Function:
    """One kind of command.

    Attributes:
        pattern: the command with its arguments in braces, ``show {file} {lines}``.
        says: description in a few words.
        optional: arguments that may be missing, with the character before them.

    >>> show = Function("show", "show {file} {lines}", "a file", optional=("lines",))
    >>> show.command({"file": "a.py"}), show.arguments("show a.py 1-9")
    ('show a.py', {'file': 'a.py', 'lines': '1-9'})
    """

    name: str
    pattern: str
    says: str
    optional: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """Signature and description: ``show(file, lines?): a file``."""
        names = (f"{name}{'?' * (name in self.optional)}" for name in self.names)
        return f"{self.name}({', '.join(names)}): {self.says}"

    @property
    def names(self) -> list[str]:
        """Names of the arguments, in the pattern's order."""
        return [name for _, name in self._parts() if name]

    def command(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the command; None if these are not the function's arguments."""
        names = set(self.names)
        if not names - set(self.optional) <= set(arguments) <= names:
            return None
        parts = (
            text + str(arguments[name]) if name in arguments else text[:-1] if name else text
            for text, name in self._parts()
        )
        return "".join(parts)

    def arguments(self, command: str) -> dict[str, str] | None:
        """Return a command's arguments; None if it is not this function's command."""
        match = re.fullmatch("".join(map(self._expected, *zip(*self._parts(), strict=True))), command, re.DOTALL)
        return {name: value for name, value in match.groupdict().items() if value is not None} if match else None

    def _parts(self) -> list[tuple[str, str]]:
        return [(text, name or "") for text, name, *_ in Formatter().parse(self.pattern)]

    def _expected(self, text: str, name: str) -> str:
        if name in self.optional:
            return f"{re.escape(text[:-1])}(?:{re.escape(text[-1])}(?P<{name}>.*?))?"
        return re.escape(text) + (f"(?P<{name}>.+?)" if name else "")


def command_of(functions: Sequence[Function], name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the command of a call; None if there is no such function or the arguments do not
    fit.
    """
    named = next((function for function in functions if function.name == name), None)
    return named.command(arguments) if named else None


def call_of(functions: Sequence[Function], command: str) -> tuple[str, dict[str, str]] | None:
    """Return the call that gives a command, or None."""
    calls = ((function.name, function.arguments(command)) for function in functions)
    return next(((name, found) for name, found in calls if found is not None), None)
