"""The types of our nodes. An environment, a reward and a prompt form add settings to their nodes.

While Hydra composes, all nodes are untyped, so that an option's file may add keys.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, get_type_hints

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from turngrid.algorithms.chosen import ALGO
from turngrid.config.errors import ConfigError
from turngrid.envs.extensions import UnknownName
from turngrid.envs.registry import environment_class, spec
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import meant
from turngrid.records.run_folder import dotted
from turngrid.rewards.registry import settings_class
from turngrid.rollouts.prompt_forms.registry import prompt_class
from turngrid.tasks.schema import NODES, Top

CHOSEN: dict[str, tuple[str, Callable[[str], Any]]] = {  # what a node's name names, and the class of its settings
    "env": ("environment", lambda name: environment_class(spec(name)).Settings),
    "turn_reward": ("", settings_class),
    "prompt": ("prompt form", prompt_class),
}


def settings_of(config: DictConfig) -> dict[str, type]:
    """Return, by node, the settings classes of the chosen environment, reward and prompt form.

    Raises:
        ConfigError: no such environment, reward or form.
    """
    by_node = {}
    for node, (what, settings) in CHOSEN.items():
        name = str(config[node].get("name"))
        try:
            by_node[node] = settings(name)
            if not dataclasses.is_dataclass(by_node[node]):
                raise TypeError(f"{by_node[node]!r} is no dataclass of settings")
        except (TaskError, UnknownName) as error:
            raise ConfigError(f"{node}.name={name}: {error}") from error
        except Exception as error:  # importing a user's module may raise any exception
            wrong = f" is no {what}: {error} (its form is module:Class)" if what else f": {error}"
            raise ConfigError(f"{node}.name={name}{wrong}") from error
    return by_node


def give_types(config: DictConfig, settings: Mapping[str, type]) -> None:
    """Type our nodes and top-level keys in place, except ``algo`` and the slots.

    Raises:
        ConfigError: an unknown key, a missing one, or a value of the wrong type.
    """
    for node, ours in NODES.items():
        if node != ALGO:
            kind = merged(ours, settings[node]) if node in settings else ours
            config[node] = typed(kind, config[node], f"{node}.")
    plain = [field.name for field in dataclasses.fields(Top) if not OmegaConf.is_interpolation(config, field.name)]
    top = typed(Top, {key: config[key] for key in plain}, "", partly=True)
    for key in plain:  # a number that stands for text, such as output_dir=7, becomes text
        config[key] = top[key]


@cache
def merged(ours: type, theirs: type) -> type:
    """Return a dataclass with the fields of both; one is frozen, so neither can inherit."""
    fields = {item[0]: item for cls in (ours, theirs) for item in fields_in(cls)}
    return dataclasses.make_dataclass(ours.__name__, fields.values())


def fields_in(kind: Any) -> list[tuple[str, Any, Any]]:
    """Return name, type and default of each setting for ``make_dataclass``, keyword-only."""
    hints: dict[str, Any] = get_type_hints(kind)
    new: Any = dataclasses.field  # mypy wants a default or a factory
    return [
        (one.name, hints[one.name], new(default=one.default, default_factory=one.default_factory, kw_only=True))
        for one in dataclasses.fields(kind)
        if one.init
    ]


@lru_cache(maxsize=64)  # the classes of methods' settings are made anew for each config
def _structured(kind: type) -> Any:
    """Return a dataclass as a node, which its users copy."""
    return OmegaConf.structured(kind)


def typed(kind: type, node: Any, prefix: str, partly: bool = False) -> DictConfig:
    """Return a node with the types of the dataclass ``kind``.

    Args:
        prefix: the node's dotted key, with its dot.
        partly: fields may be missing.

    Raises:
        ConfigError: an unknown key, a missing one, or a value of the wrong type.
    """
    try:
        result = OmegaConf.merge(_structured(kind), node)
    except ConfigKeyError as error:
        known = [field.name for field in dataclasses.fields(error.object_type or kind)]
        parent, _, name = (error.full_key or str(error.key)).rpartition(".")
        node_prefix = f"{prefix}{parent}." if parent else prefix
        near = meant(name, known, node_prefix) or f"; use one of: {', '.join(known)}"
        raise ConfigError(f"unknown key {node_prefix}{name}{near}") from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"{prefix}{error.full_key}: {str(error).splitlines()[0]}") from error
    assert isinstance(result, DictConfig)
    if not partly:
        refuse_missing(result, prefix)
    return result


def refuse_missing(node: DictConfig, prefix: str) -> None:
    for key, value in dotted(OmegaConf.to_container(node)):
        if value == MISSING:
            raise ConfigError(f"{prefix}{key} must be given; use {prefix}{key}=VALUE")
