"""The functions of bfcl-eval's services, and calls in Python's syntax."""

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from turngrid.envs.functions import CALL_FORM, Function
from turngrid.envs.types import InvalidAction

END_TURN = Function("end_turn", "when no more calls are needed for the user's request")
NO_CALL = f"That is not a call: write {CALL_FORM}, one a line; end_turn ends your turn."
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


class Written(NamedTuple):
    """A call as it is written, with arguments by position and by name."""

    name: str
    values: list[Any]
    named: dict[str, Any]


def function_of(document: Mapping[str, Any]) -> Function:
    description = document["description"].rpartition("Tool description: ")[2].strip()
    return Function(document["name"], description, _schema(document["parameters"]))


def _schema(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of a type in bfcl-eval's form; defaults go into the description."""
    schema = {**described, "type": _TYPES.get(described["type"], described["type"])}
    default, note = schema.pop("default", None), schema.pop("description", "").strip()
    if default is not None and "efault" not in note:
        note = f"{note} Default: {default}".lstrip()
    if note:
        schema["description"] = note
    if "properties" in schema:
        schema["properties"] = {name: _schema(part) for name, part in schema["properties"].items()}
    if "items" in schema:
        schema["items"] = _schema(schema["items"])
    return schema


def python_calls(text: str) -> list[Written]:
    """Read calls such as ``[cd(folder='a'), ls()]``, also one a line; only literals are evaluated.

    Raises:
        InvalidAction: the text is anything else.
    """
    try:
        calls = [_written(node) for node in _nodes(ast.parse(text))]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise InvalidAction(NO_CALL) from error
    if not calls:
        raise InvalidAction(NO_CALL)
    return calls


def _nodes(tree: ast.Module) -> Iterator[ast.AST]:
    for line in tree.body:
        value = line.value if isinstance(line, ast.Expr) else line
        yield from value.elts if isinstance(value, ast.List) else [value]


def _written(node: ast.AST) -> Written:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise TypeError("not a call of a function by its name")
    values = [ast.literal_eval(value) for value in node.args]
    named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    return Written(node.func.id, *json.loads(json.dumps([values, named], allow_nan=False)))
