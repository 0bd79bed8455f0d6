"""The types of verl's keys, from its config dataclasses. Their source is read and not imported: that would take seconds.

A node of verl's tree names its dataclass in ``_target_``. Where there is none, a key has the type of verl's own default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from omegaconf import OmegaConf

from config import base
from config.values.limits import TYPES, Types

SOURCES = (
    "workers/config/*.py",
    "trainer/config/*.py",
    "utils/profiler/config.py",
    "utils/qat/*.py",
    "utils/skip/*.py",
)
NAMED = {"tuple": "list", "Sequence": "list", "Path": "str"} | {name: name for name in TYPES}
NULL = frozenset({"null"})
ANY: frozenset[str] = frozenset()


class Source:
    """The fields of verl's dataclasses by the classes' names, with those that they inherit."""

    @cached_property
    def _classes(self) -> dict[str, ast.ClassDef]:
        root = base.verl_folder().parent.parent
        files = (file for pattern in SOURCES for file in sorted(root.glob(pattern)))
        trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files)
        return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}

    def fields(self, name: str) -> dict[str, ast.AnnAssign]:
        """Field -> its line; nothing for a class that is not here."""
        if name not in self._classes:
            return {}
        node = self._classes[name]
        inherited = [self.fields(part.id) for part in reversed(node.bases) if isinstance(part, ast.Name)]
        own = {
            line.target.id: line
            for line in node.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        }
        return {name: line for fields in (*inherited, own) for name, line in fields.items()}

    def dataclass_of(self, line: ast.AnnAssign | None) -> str:
        """The dataclass that a field holds, or may hold; "": none."""
        names = [node.id for node in ast.walk(line.annotation) if isinstance(node, ast.Name)] if line else []
        return next((name for name in names if name in self._classes), "")

    def types(self, line: ast.AnnAssign) -> frozenset[str]:
        """What a field may hold; empty: anything."""
        found = self._types(line.annotation)
        default = line.value
        return found | NULL if found and isinstance(default, ast.Constant) and default.value is None else found

    def _types(self, annotation: ast.expr) -> frozenset[str]:
        match annotation:
            case ast.Constant(value=None):
                return NULL
            case ast.Constant(value=str(text)):
                return self._types(ast.parse(text, mode="eval").body)
            case ast.Name(id=name):
                return (
                    frozenset({NAMED[name]}) if name in NAMED else frozenset({"dict"} if name in self._classes else ())
                )
            case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
                return self._joined([inner], NULL)
            case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=parts)):
                return self._joined(parts)
            case ast.Subscript(value=ast.Name(id="Literal")):
                return frozenset({"str"})
            case ast.Subscript(value=ast.Name(id=name)):
                return self._types(ast.Name(id=name.lower()))
            case ast.BinOp(left=left, right=right):
                return self._joined([left, right])
        return ANY

    def _joined(self, parts: list[ast.expr], start: frozenset[str] = ANY) -> frozenset[str]:
        found = [self._types(part) for part in parts]
        return start.union(*found) if all(found) else ANY


@cache
def verl_source() -> Source:
    return Source()


def type_of_default(value: Any) -> frozenset[str]:
    """Of a value of verl's tree; what is ???, or follows from other keys, may also be null."""
    if value is None or (isinstance(value, str) and (value == "???" or "${" in value)):
        return NULL
    return frozenset({type(value).__name__})


@dataclass(frozen=True)
class Key:
    """What verl says of one key.

    Attributes:
        types: that it may have.
        value: verl's own.
        names: of the keys that the node's dataclass knows.
    """

    types: Types
    value: Any = None
    names: frozenset[str] = frozenset()


@cache
def verl_keys() -> Mapping[str, Key]:
    """Every key of verl's tree, and those that its dataclasses have besides, by the full name."""
    tree = OmegaConf.to_container(base.verl_tree())
    resolved = OmegaConf.to_container(base.verl_tree(), resolve=True)
    assert isinstance(tree, dict)
    assert isinstance(resolved, dict)
    return dict(_walk(tree, resolved, "", ""))


def _walk(node: Mapping[str, Any], resolved: Mapping[str, Any], prefix: str, cls: str) -> Iterator[tuple[str, Key]]:
    """``resolved``: the node with what its interpolations give; ``cls``: its dataclass; "": it has none."""
    fields = verl_source().fields(cls)
    for name in [*node, *(fields.keys() - node.keys())]:
        value, key = node.get(name), f"{prefix}{name}"
        below = _class_of(value) or verl_source().dataclass_of(fields.get(name))
        yield key, Key(_types(fields.get(name), value, resolved.get(name)), value, _names(resolved.get(name), below))
        if isinstance(value, dict):
            yield from _walk(value, resolved[name], f"{key}.", below)


def _class_of(value: Any) -> str:
    return str(value.get("_target_", "")).rpartition(".")[2] if isinstance(value, dict) else ""


def _names(value: Any, cls: str) -> frozenset[str]:
    fields = verl_source().fields(cls)
    return frozenset({*value, *fields}) if isinstance(value, dict) and fields else frozenset()


def _types(field: ast.AnnAssign | None, value: Any, resolved: Any) -> Types:
    """What the dataclass says, and what verl's own files have, since the two do not always agree."""
    given = type_of_default(resolved if isinstance(resolved, bool) else value)
    if field is None and given == NULL and resolved not in (None, "???"):
        return Types(type_of_default(resolved) | NULL)
    if field is None:
        return Types(given if given != NULL else ANY)
    stated = verl_source().types(field)
    return Types(stated | given if stated else ANY)
