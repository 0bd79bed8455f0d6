"""BFCL's multi-turn function calling: ``env=bfcl env.task=base``.

A scripted user makes one request after another; the agent calls functions of services that keep
their state. bfcl-eval's own executor is never used, since it evaluates a model's words as Python.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CALL_FORM, Function
from turngrid.envs.types import InvalidAction

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
SCENARIOS = 200  # the categories vary the same ones
# The last digits of the scenarios of a split; consecutive scenarios use the same services.
SPLIT_DIGITS = {"test": "0123", "test_paper": "0123", "validation": "4", "demonstrations": "56", "train": "789"}
END_TURN = Function("end_turn", "when no more calls are needed for the user's request")
NO_CALL = f"That is not a call: write {CALL_FORM}, one a line; end_turn ends your turn."
_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


@dataclass(frozen=True)
class BfclSettings:
    end_by_words: bool


class Bfcl(Environment):
    """Tasks: one of ``CATEGORIES``, or ``all``. A seed is a category and a scenario's number."""

    name = "bfcl"
    turns = 40
    package = "bfcl-eval"
    modules = ("bfcl_eval",)
    install = "pip install --no-deps bfcl-eval==2026.3.23"
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You serve a user by calling functions.", functions=(END_TURN,))
    Settings = BfclSettings
    Env = "turngrid.envs.bfcl.env:BfclEnv"
    examples = (*CATEGORIES, "all")
    settings: BfclSettings

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_task(task)
        return {"categories": list(CATEGORIES) if task == "all" else [task]}

    def seeds(self, params: Params, split: str) -> Sequence[int]:
        numbers = [number for number in range(SCENARIOS) if str(number)[-1] in SPLIT_DIGITS.get(split, "")]
        first = [SCENARIOS * CATEGORIES.index(category) for category in params["categories"]]
        return [start + number for number in numbers for start in first]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.bfcl.env import made

        category, number = divmod(seed, SCENARIOS)
        return made(CATEGORIES[category], number, folder)


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
