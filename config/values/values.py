"""Check the values of a composed config against their limits: ranges, words, types."""

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf

from turngrid.config import base
from turngrid.config.errors import ConfigError
from turngrid.config.values import verl_limits
from turngrid.config.values.limits import TYPES, Limit, Range, Types, Word, Words
from turngrid.config.values.verl_limits import verl_keys
from turngrid.envs.utils.names import meant
from turngrid.records.run_folder import dotted
from turngrid.tasks.schema import NODES, Top

Limits = Mapping[str, Limit]
SHOWN = 60  # characters of a value that a message repeats
FOLLOWED = re.compile(r"\$\{(?:oc\.select:)?(?P<dots>\.*)(?P<key>[a-z_][\w.]*)(?=[,}])")


def check(config: DictConfig, settings: Mapping[str, type], results: bool = False) -> None:
    """Refuse a config with an invalid value.

    Args:
        settings: node -> dataclass of the settings that environment, reward or prompt form adds.
        results: check what interpolations result in, else all other values. These come first, so
            that a message names the key that was set and not one that follows from it.

    Raises:
        ConfigError: one line with the key and its allowed values.
        OmegaConfBaseException: an interpolation refers to a missing key.
    """
    verls, limits = verl_keys(), limits_of(*settings.items())
    for key, value in dotted(OmegaConf.to_container(config)):
        if (isinstance(value, str | list) and "${" in str(value)) != results:
            continue
        if results and key in verls and verls[key].value == value:  # it repeats a key that was checked
            continue
        result = OmegaConf.select(config, key) if results else value
        plain: Any = OmegaConf.to_container(result, resolve=True) if OmegaConf.is_config(result) else result
        if problem := _problem(key, plain, limits):
            raise ConfigError(f"{key}={shown(plain)} {problem}{because(config, key)}")
        known = verls[key].names if isinstance(plain, dict) and key in verls else ()
        for name in (str(name) for name in plain if name not in known) if known else ():
            raise ConfigError(f"unknown key {key}.{name}{meant(name, known, f'{key}.')}")


def _problem(key: str, value: Any, limits: Limits) -> str | None:
    verls = verl_keys()
    if value == MISSING and not (key in verls and verls[key].value == MISSING):
        return "must be given"
    if isinstance(value, dict) and None in value:
        return "cannot hold a key that is null"
    limit = limits.get(key)
    if limit is None and key.split(".")[0] in base.verl_tree():  # verl or Ray may still read it
        limit = verl_limits.stated_limit(key)
    return (limit or Types()).problem(None if value == MISSING else value)


def because(config: DictConfig, key: str) -> str:
    """Return a message's words on the key from which this one is interpolated; "" if it is not."""
    parts, node = key.split("."), OmegaConf.to_container(config)
    for depth, part in enumerate(parts):
        node = node.get(part) if isinstance(node, dict) else None
        if isinstance(node, str) and (match := FOLLOWED.search(node)):
            above = parts[: depth + 1 - len(match["dots"])] if match["dots"] else []
            return f"; it follows from {'.'.join([*above, match['key'], *parts[depth + 1 :]])}"
    return ""


def shown(value: Any) -> str:
    """Return a value as it is typed on the command line, in one line."""
    words = {None: "null", True: "true", False: "false"}
    if isinstance(value, float):
        return f"{value:g}"
    text = words[value] if value is None or isinstance(value, bool) else " ".join(str(value).split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


@cache
def limits_of(*settings: tuple[str, type]) -> Limits:
    """Return limits by dotted key: verl's, ours, and those of the settings of a node."""
    limits = {name: key.limit(name) for name, key in verl_keys().items()} | limits_in(Top)
    for node, kind in (*NODES.items(), *settings):
        limits |= limits_in(kind, f"{node}.")
    return limits


def limits_in(kind: Any, prefix: str = "") -> dict[str, Limit]:
    """Return a dataclass's limits: the metadata of a field, else its type."""
    hints = get_type_hints(kind)
    limits: dict[str, Limit] = {}
    for field in dataclasses.fields(kind):
        hint, key = hints[field.name], f"{prefix}{field.name}"
        if dataclasses.is_dataclass(hint):
            limits |= limits_in(hint, f"{key}.")
        else:
            limits[key] = _limit_in(field.metadata, hint)
    return limits


def _limit_in(stated: Mapping[str, Any], hint: Any) -> Limit:
    """Return the limit of a field by its metadata and its type."""
    if "choices" in stated:
        return Words(stated["choices"])
    if "one_word" in stated:
        return Word()
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kinds = {get_origin(part) or part for part in parts}
    if "range" in stated:
        low, high = stated["range"]
        return Range(low, high, whole=int in kinds, null=NoneType in kinds, each=list in kinds)
    return Types(frozenset(name for name, (_, types) in TYPES.items() if types[-1] in kinds))
