"""The nodes whose keys depend on what was chosen: an environment adds its settings to ``env``, a reward to ``turn_reward``, a
prompt form to ``prompt``.

While Hydra composes they are plain, so that an option's file may bring keys of its own; here they get their types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from config.errors import ConfigError
from config.schema import Env, Prompt, TurnReward
from envs.extensions import UnknownName
from envs.registry import environment_class, spec
from envs.types import TaskError
from rewards.registry import settings_class
from rollouts.prompt_forms.registry import prompt_class

OPEN = {
    "env": Env,
    "turn_reward": TurnReward,
    "prompt": Prompt,
}  # ``algo`` too, whose settings get their types with the methods'
CHOSEN: dict[str, tuple[str, Callable[[str], Any]]] = {  # what a node's name names, and the class of its settings
    "env": ("environment", lambda name: environment_class(spec(name)).Settings),
    "turn_reward": ("", settings_class),
    "prompt": ("prompt form", prompt_class),
}


def settings_of(config: DictConfig) -> dict[str, type]:
    """The dataclasses of the chosen environment's, reward's and prompt form's own settings, by their nodes.

    Raises:
        ConfigError: no such environment, reward or form.
    """
    found = {}
    for node, (what, settings) in CHOSEN.items():
        name = str(config[node].get("name"))
        try:
            found[node] = settings(name)
            if not dataclasses.is_dataclass(found[node]):
                raise TypeError(f"{found[node]!r} is no dataclass of settings")
        except (TaskError, UnknownName) as error:
            raise ConfigError(f"{node}.name={name}: {error}") from error
        except Exception as error:  # somebody's own module may raise anything while it is imported
            wrong = f" is no {what}: {error} (its form is module:Class)" if what else f": {error}"
            raise ConfigError(f"{node}.name={name}{wrong}") from error
    return found


def give_types(config: DictConfig, settings: Mapping[str, type]) -> None:
    """Type the nodes in place.

    Raises:
        ConfigError: a key that what was chosen does not have, or a value of the wrong type.
    """
    for node, ours in OPEN.items():
        _give_type(config, node, merged(ours, settings[node]))


@cache
def merged(ours: type, theirs: type) -> type:
    """One dataclass with the fields of both; not a subclass, since only one of them is frozen."""
    fields = {item[0]: item for cls in (ours, theirs) for item in fields_in(cls)}
    return dataclasses.make_dataclass(ours.__name__, fields.values())


def fields_in(kind: Any) -> list[tuple[str, Any, Any]]:
    """Return name, type and default of each setting for ``make_dataclass``; keyword-only, as some have no default."""
    hints, found = get_type_hints(kind), [item for item in dataclasses.fields(kind) if item.init]
    kept = [{"default": item.default, "default_factory": item.default_factory} for item in found]
    return [
        (item.name, hints[item.name], dataclasses.field(**have, kw_only=True))  # type: ignore[call-overload]
        for item, have in zip(found, kept, strict=True)
    ]


def _give_type(config: DictConfig, node: str, kind: type) -> None:
    try:
        config[node] = OmegaConf.merge(OmegaConf.structured(kind), config[node])
    except ConfigKeyError as error:
        known = ", ".join(f.name for f in dataclasses.fields(kind))
        raise ConfigError(f"unknown key {node}.{error.full_key or error.key} (keys: {known})") from error
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(f"{node}.{error.full_key}: {reason}") from error
