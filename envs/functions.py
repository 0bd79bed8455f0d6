"""Functions that an agent may call, and how calls are read."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from turngrid.envs.types import Action, Call, InvalidAction
from turngrid.envs.utils.printable import shortened

CALL_FORM = '{"name": NAME, "arguments": {NAME: VALUE}}'
_LONGEST = 100_000  # characters of an answer in which calls are looked for
_SHOWN = 200  # characters of a message about arguments
_NAME = 40  # characters of an unknown function's name
_DEEPEST = 32  # levels of arguments


@dataclass(frozen=True)
class Function:
    """A function that an agent may call.

    Attributes:
        description: in a few words.
        parameters: JSON schema of an object, which holds the arguments.

    >>> lamp = {"type": "object", "properties": {"lamp": {"type": "integer"}}, "required": ["lamp"]}
    >>> light = Function("light", "light a lamp", lamp)
    >>> light.described, light.problem({"lamp": "two"})
    ('light(lamp: integer): light a lamp', "lamp: 'two' is not of type 'integer'")
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    @property
    def tool(self) -> dict[str, Any]:
        """An entry of ``tools`` in the API of chat endpoints."""
        described = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": described}

    @property
    def described(self) -> str:
        """``show(file, lines?): a file``, a signature and a description; strings have no type."""
        required, properties = self.parameters.get("required", ()), self.parameters.get("properties", {})
        names = [f"{name}{'?' * (name not in required)}{_type(schema)}" for name, schema in properties.items()]
        notes = [f"; {name}: {schema['description']}" for name, schema in properties.items() if "description" in schema]
        return f"{self.name}({', '.join(names)}): {self.description}{''.join(notes)}"

    def problem(self, arguments: Mapping[str, Any]) -> str:
        """Return why these are not the function's arguments, in one line; "" if they are."""
        from jsonschema import Draft202012Validator  # 0.1 s
        from jsonschema.exceptions import best_match
        from referencing import Registry

        closed = {"additionalProperties": False} if "properties" in self.parameters else {}
        schema = {"type": "object", **closed, **self.parameters}
        validator = Draft202012Validator(schema, registry=Registry())  # which loads nothing from the net
        error = best_match(validator.iter_errors(dict(arguments)))
        if error is None:
            return ""
        path = ".".join(map(str, error.absolute_path))
        return shortened(f"{path}: {error.message}" if path else error.message, _SHOWN)


@dataclass(frozen=True)
class CommandFunction(Function):
    """A function that stands for a command; its arguments are strings.

    Attributes:
        pattern: the command with its arguments in braces, ``show {file} {lines}``.
        optional: arguments that may be missing, with the character before them.

    >>> show = CommandFunction("show", "a file", pattern="show {file} {lines}", optional=("lines",))
    >>> show.command({"file": "a.py"}), show.arguments("show a.py 1-9")
    ('show a.py', {'file': 'a.py', 'lines': '1-9'})
    """

    pattern: str = ""
    optional: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [name for _, name in self._parts() if name]
        required = [name for name in names if name not in self.optional]
        properties = {name: {"type": "string"} for name in names}
        schema = {"type": "object", "properties": properties, "required": required}
        object.__setattr__(self, "parameters", schema)

    def problem(self, arguments: Mapping[str, Any]) -> str:
        plain = {name: value if isinstance(value, dict | list) else str(value) for name, value in arguments.items()}
        return super().problem(plain)

    def command(self, arguments: Mapping[str, Any]) -> str:
        """Return the command of a call with these arguments, which fit."""
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


def called(functions: Sequence[Function], call: Call) -> Function:
    """Return the function of a call.

    Raises:
        InvalidAction: there is none, or the arguments do not fit.
    """
    function = next((function for function in functions if function.name == call.name), None)
    if function is None:
        names = ", ".join(function.name for function in functions)
        raise InvalidAction(f"There is no function {call.name[:_NAME]!r}; the functions are {names}.")
    if problem := function.problem(call.arguments):
        raise InvalidAction(f"The arguments of {call.name} do not fit: {problem}")
    return function


def command_of(functions: Sequence[Function], call: Call) -> str | None:
    """Return the command that a call stands for, or None."""
    try:
        function = called(functions, call)
    except InvalidAction:
        return None
    return function.command(call.arguments) if isinstance(function, CommandFunction) else None


def calls_of(functions: Sequence[Function], action: str) -> tuple[Call, ...]:
    """Return the calls of an action; of a command, the call that stands for it."""
    if calls := action_of(action).calls:
        return calls
    commands = (function for function in functions if isinstance(function, CommandFunction))
    matching = ((function.name, function.arguments(action)) for function in commands)
    return next(((Call(name, arguments),) for name, arguments in matching if arguments is not None), ())


def action_of(text: str) -> Action:
    """Return calls if the text is nothing but calls in JSON, else the text."""
    calls = list(calls_in(text)) if text.lstrip()[:1] == "{" else []
    ends = [0, *(end for _, end, _ in calls)]
    between = zip(ends, [*(begin for begin, _, _ in calls), None], strict=True)
    if any(text[end:begin].strip() for end, begin in between):
        return Action(text)
    return Action(calls=tuple(call for *_, call in calls)) if calls else Action(text)


def calls_in(text: str, start: int = 0) -> Iterator[tuple[int, int, Call]]:
    """Yield the calls in a text, with the indices where their JSON begins and ends."""
    text = text[:_LONGEST]
    while (start := text.find("{", start)) >= 0:
        try:
            value, end = _JSON.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
            continue
        name, arguments = value.get("name"), _arguments(value)
        if isinstance(name, str) and isinstance(arguments, dict) and not _deep(arguments):
            yield start, end, Call(name, arguments)
        start = end


def _arguments(call: dict[str, Any]) -> Any:
    """Return a call's arguments; some models name them parameters, or write a JSON string."""
    arguments = call.get("arguments", call.get("parameters", {}))
    try:
        return _JSON.decode(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None


def _deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        nested = (item for item in level if isinstance(item, dict | list))
        level = [child for item in nested for child in (item.values() if isinstance(item, dict) else item)]
    return bool(level)


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is no number of JSON")
    return value


_JSON = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def _type(schema: Mapping[str, Any]) -> str:
    """Return an argument's type for a signature: words if they suffice, else its JSON schema."""
    schema = {key: value for key, value in schema.items() if key not in ("description", "title")}
    if schema == {"type": "string"}:
        return ""
    if set(schema) == {"type"} and isinstance(schema["type"], str):
        return f": {schema['type']}"
    if "enum" in schema and set(schema) <= {"type", "enum"}:
        return f": {'|'.join(map(json.dumps, schema['enum']))}"
    return f": {json.dumps(schema)}"
