"""Write alfworld's texts: expand its context-sensitive grammar, as TextWorld parses it, in a state.

The texts are those of TextWorld's writer (tested on random play), which takes 70 ms a step: it
parses each template anew and copies whole contexts at each symbol.
"""

import ast
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from textworld.envs.pddl import logic, textgen
from textworld.logic import Rule

Arguments = tuple[str, ...]
Facts = Mapping[str, set[Arguments]]
Bindings = dict[str, str]  # placeholder -> object
_GRAMMAR = re.compile(r'\bgrammar\s*::\s*"""(.*?)"""\s*;', re.DOTALL)  # a block of JSON
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_TASK = re.compile(r'(?<="rhs": ")Your task is to: (?:[^"\\]|\\.)*(?=")')
_HARMLESS = (
    *(ast.Expression, ast.Name, ast.Load, ast.Attribute, ast.Constant),
    *(ast.BinOp, ast.Add, ast.BoolOp, ast.Or, ast.And),
)
_PLACEHOLDER_TASK = "Your task is to: UNKNOWN GOAL."


@dataclass(frozen=True)
class Entity:
    """An object, with the attributes that the grammar's expressions use."""

    id: str
    name: str
    definite: str = "the"
    indefinite: str = "a"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Grammar:
    """Alternatives of each symbol, actions by name in lower case, and the line with the task.

    An action of TextWorld has its command as ``template`` and its answer as ``feedback_rule``.
    """

    rules: Mapping[str, Sequence[Any]]
    actions: Mapping[str, Any]
    task: str


def parse(source: str) -> Grammar:
    """Parse the grammar of a game file. The grammars of two games differ only in the task's line.

    Raises:
        Exception: any exception of TextWorld's parser, for a broken grammar.
    """
    match = _TASK.search(source)
    task = json.loads(f'"{match.group()}"') if match else ""
    rules, actions = _parse(_TASK.sub(_PLACEHOLDER_TASK, source))
    return Grammar(rules, actions, task)


@functools.lru_cache(maxsize=8)
def _parse(source: str) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    parts: dict[str, Any] = {}
    for block in _GRAMMAR.findall(source):
        parts |= json.loads(_COMMENT.sub("", block))
    actions = logic.GameLogic(domain="", grammar=_GRAMMAR.sub("", source)).actions
    return _Rules.parse(json.dumps(parts)).rules, actions


@functools.lru_cache(maxsize=1024)
def _symbols(template: str) -> tuple[Any, ...]:
    (rule,) = _Rules.parse(json.dumps({"template": [{"rhs": template}]})).rules["template"]
    return tuple(rule.rhs)


class _Rules(textgen.ContextSensitiveGrammar):
    """A grammar of TextWorld whose rules can be read."""

    def __init__(self) -> None:
        super().__init__()
        self.rules: dict[str, list[Any]] = {}

    def add_rule(self, rule: Any) -> None:
        super().add_rule(rule)
        self.rules.setdefault(rule.lhs, []).append(rule)


@functools.lru_cache(maxsize=1024)
def _code(expression: str) -> CodeType:
    """Compile an expression of a game file, which may only join attributes of objects or choose
    between them: a downloaded file must not run code.
    """
    tree = ast.parse(expression.strip(), mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _HARMLESS) or (isinstance(node, ast.Attribute) and node.attr.startswith("_")):
            raise ValueError(f"an expression that a grammar may not hold: {expression.strip()!r}")
    return compile(tree, "<grammar>", "eval")


@functools.lru_cache(maxsize=1024)
def _query(expression: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the predicates of a condition, each with its placeholders' names and types."""
    predicates = Rule.parse_conjunctive_query(expression).preconditions
    return tuple((p.name, tuple((ph.name, ph.type) for ph in p.parameters)) for p in predicates)


class Writer:
    """Writes texts about one game, given its grammar, its objects and their types."""

    def __init__(self, grammar: Grammar, entities: Mapping[str, Entity], types: Mapping[str, str]) -> None:
        self._grammar, self._entities, self._types = grammar, entities, types

    def write(self, template: str, facts: Facts, bindings: Bindings) -> str:
        """Expand ``template``: each symbol becomes the first of its rules whose condition holds.

        Raises:
            KeyError: a symbol has no such rule.
        """
        return self._all(_symbols(template), facts, bindings)

    def _all(self, symbols: Sequence[Any], facts: Facts, bindings: Bindings) -> str:
        return "".join(self._one(symbol, facts, bindings) for symbol in symbols)

    def _one(self, symbol: Any, facts: Facts, bindings: Bindings) -> str:
        match symbol:
            case textgen.TerminalSymbol():
                return str(symbol)
            case textgen.NonterminalSymbol():
                return self._rule(str(symbol), facts, bindings)
            case textgen.EvalSymbol():
                variables = {name: self._entities[obj] for name, obj in bindings.items()}
                return str(eval(_code(symbol.expression), {}, variables))
            case textgen.ListSymbol():
                return self._list(list(self._cases(symbol.symbol, facts, bindings)), facts, bindings)
            case textgen.ConditionalSymbol():
                return "".join(self._cases(symbol, facts, bindings))
        raise TypeError(f"unknown symbol {symbol!r} in a grammar")

    def _rule(self, name: str, facts: Facts, bindings: Bindings) -> str:
        if name == "task" and self._grammar.task:
            return self._grammar.task
        for rule in self._grammar.rules[name]:
            if not rule.condition or any(True for _ in self._match(_query(rule.condition), facts, bindings)):
                return self._all(rule.rhs, facts, bindings)
        raise KeyError(f"no rule of {name} applies")

    def _cases(self, symbol: Any, facts: Facts, bindings: Bindings) -> Iterator[str]:
        """Yield the expression once for each way to meet its condition."""
        cases = self._match(_query(symbol.given), facts, bindings) if symbol.given else iter((bindings,))
        for match in cases:
            yield self._one(symbol.expression, facts, match)

    def _list(self, items: list[str], facts: Facts, bindings: Bindings) -> str:
        if not items:
            return self._rule("list_empty", facts, bindings)
        if len(items) == 1:
            return items[0]
        separator = self._rule("list_separator", facts, bindings)
        return separator.join(items[:-1]) + self._rule("list_last_separator", facts, bindings) + items[-1]

    def _match(self, predicates: Sequence[Any], facts: Facts, bindings: Bindings) -> Iterator[Bindings]:
        """Yield each way to meet the predicates, by ids; no object fills two placeholders."""
        if not predicates:
            yield bindings
            return
        name, placeholders = predicates[0]
        for arguments in sorted(facts.get(name, ())):
            extended = self._extend(bindings, placeholders, arguments)
            if extended is not None:
                yield from self._match(predicates[1:], facts, extended)

    def _extend(self, bindings: Bindings, placeholders: Sequence[Any], arguments: Arguments) -> Bindings | None:
        extended = dict(bindings)
        for (name, kind), obj in zip(placeholders, arguments, strict=True):
            if name in extended:
                fits = extended[name] == obj
            else:
                fits = obj not in extended.values() and kind in ("object", self._types.get(obj))
            if not fits:
                return None
            extended[name] = obj
        return extended
