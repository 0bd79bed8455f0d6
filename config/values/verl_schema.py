"""The types of verl's keys, read from ``verl_schema.json`` (``write_verl_schema`` writes it)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from turngrid.config import base
from turngrid.config.nodes import dotted
from turngrid.config.values.limits import Types

FILE = Path(__file__).with_name("verl_schema.json")


@dataclass(frozen=True)
class Key:
    """One key of verl.

    Attributes:
        types: the types that it may have.
        value: verl's own value.
        names: the keys of the node's dataclass; empty: any key may be added.
    """

    types: Types
    value: Any
    names: frozenset[str]


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return schema


@cache
def verl_keys() -> Mapping[str, Key]:
    """Return every key of verl's tree, and those that only its dataclasses have, by the dotted
    name.
    """
    values, names = dict(dotted(OmegaConf.to_container(base.verl_tree()))), _schema()["nodes"]
    return {
        key: Key(Types(frozenset(types.split("|")) - {""}), values.get(key), frozenset(names.get(key, ())))
        for key, types in _schema()["keys"].items()
    }


def policy_losses() -> tuple[str, ...]:
    """Return the names of verl's policy losses."""
    return tuple(_schema()["losses"])
