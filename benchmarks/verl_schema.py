"""Write ``config/values/verl_schema.json``, the types of verl's keys, from its config dataclasses:

    python -m benchmarks.verl_schema

Importing verl takes seconds, so the file is written once for each version of verl; a test compares
it with the installed one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hydra.utils import get_class, get_object
from omegaconf import OmegaConf

from turngrid.config import base
from turngrid.config.values.verl_limits import FILE

LOSSES = "verl.trainer.ppo.core_algos.POLICY_LOSS_REGISTRY"
NAMES: dict[Any, str] = {
    NoneType: "null",
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    Path: "str",
    Literal: "str",
    list: "list",
    tuple: "list",
    Sequence: "list",
    dict: "dict",
}
Fields = dict[str, tuple[Any, frozenset[str]]]  # name -> dataclass that the field holds or None, types


def schema() -> dict[str, Any]:
    """Return verl's version, the names of its losses, its keys with their types, and the keys that
    a dataclass node may have.
    """
    tree: Any = OmegaConf.to_container(base.verl_tree())
    resolved: Any = OmegaConf.to_container(base.verl_tree(), resolve=True)
    keys: dict[str, str] = {}
    nodes: dict[str, list[str]] = {}
    for name, types, known in _walk(tree, resolved, "", None):
        keys[name] = "|".join(sorted(types))
        if known:
            nodes[name] = sorted(known)
    losses = [name for name in get_object(LOSSES) if not name.startswith("turngrid")]
    return {"verl": version("verl"), "losses": losses, "keys": keys, "nodes": nodes}


def _walk(
    node: Mapping[str, Any], resolved: Mapping[str, Any], prefix: str, cls: Any
) -> Iterator[tuple[str, frozenset[str], set[str]]]:
    """Yield name, types and the known keys below, of the tree's keys and of those that only the
    dataclass has.
    """
    fields = _fields(cls)
    for name in [*node, *sorted(fields.keys() - node.keys())]:
        value, seen = node.get(name), resolved.get(name)
        held, stated = fields.get(name, (None, None))
        below = get_class(value["_target_"]) if isinstance(value, dict) and "_target_" in value else held
        known = {*seen, *_fields(below)} if isinstance(seen, dict) and below else set()
        yield f"{prefix}{name}", _types(stated, value, seen), known
        if isinstance(value, dict):
            yield from _walk(value, resolved[name], f"{prefix}{name}.", below)


def _fields(cls: Any) -> Fields:
    if cls is None:
        return {}
    hints, found = get_type_hints(cls), {}
    for field in dataclasses.fields(cls):
        parts = get_args(hints[field.name]) or (hints[field.name],)
        held = next((part for part in parts if dataclasses.is_dataclass(part)), None)
        types = _types_of(hints[field.name])
        found[field.name] = (held, types | {"null"} if types and field.default is None else types)
    return found


def _types_of(hint: Any) -> frozenset[str]:
    """Return the types that an annotation names; none: any."""
    if get_origin(hint) in (Union, UnionType):
        parts = [_types_of(part) for part in get_args(hint)]
        return frozenset().union(*parts) if all(parts) else frozenset()
    kind = get_origin(hint) or hint
    return frozenset({"dict"} if dataclasses.is_dataclass(kind) else {NAMES[kind]} if kind in NAMES else ())


def _types(stated: frozenset[str] | None, value: Any, resolved: Any) -> frozenset[str]:
    """Return the types that the dataclass states or verl's own value has, since the two do not
    always agree; none: any.
    """
    given = _of_value(resolved if isinstance(resolved, bool) else value)
    if stated is not None:
        return stated | given if stated else stated
    if given == {"null"}:
        return frozenset() if resolved in (None, "???") else _of_value(resolved) | given
    return given


def _of_value(value: Any) -> frozenset[str]:
    """Return the type of verl's own value; one that is ??? or interpolated may also be null."""
    open_ = value is None or (isinstance(value, str) and (value == "???" or "${" in value))
    return frozenset({"null" if open_ else type(value).__name__})


if __name__ == "__main__":
    FILE.write_text(json.dumps(schema(), indent=1) + "\n", encoding="utf-8")
