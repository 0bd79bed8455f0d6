"""The nodes whose keys depend on what was chosen: an environment adds its settings to ``env``, a reward to ``turn_reward``, a
prompt form to ``prompt``.

While Hydra composes they are plain, so that an option's file may bring keys of its own; here they get their types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
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


def settings_of(config: DictConfig) -> dict[str, type]:
    """The dataclasses of the chosen environment's, reward's and prompt form's own settings, by their nodes.

    Raises:
        ConfigError: no such environment, reward or form.
    """
    return {
        "env": _environment_settings(str(config.env.get("name"))),
        "turn_reward": _reward_settings(str(config.turn_reward.get("name"))),
        "prompt": _prompt_settings(str(config.prompt.get("name"))),
    }


def give_types(config: DictConfig, settings: Mapping[str, type]) -> None:
    """Type the nodes in place.

    Raises:
        ConfigError: a key that what was chosen does not have, or a value of the wrong type.
    """
    for node, ours in OPEN.items():
        _give_type(config, node, merged(ours, settings[node]))


def _environment_settings(name: str) -> type:
    try:
        return _dataclass(environment_class(spec(name)).Settings)
    except TaskError as error:
        raise ConfigError(f"env.name={name}: {error}") from error
    except Exception as error:  # somebody's own module may raise anything while it is imported
        raise ConfigError(f"env.name={name} is no environment: {error} (its form is module:Class)") from error


def _reward_settings(name: str) -> type:
    try:
        return _dataclass(settings_class(name))
    except Exception as error:  # likewise
        raise ConfigError(f"turn_reward.name={name}: {error}") from error


def _prompt_settings(name: str) -> type:
    try:
        return _dataclass(prompt_class(name))
    except UnknownName as error:
        raise ConfigError(f"prompt.name={name}: {error}") from error
    except Exception as error:  # likewise
        raise ConfigError(f"prompt.name={name} is no prompt form: {error} (its form is module:Class)") from error


def _dataclass(kind: Any) -> type:
    """Raises: TypeError: it is none."""
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind!r} is no dataclass of settings")
    return kind  # type: ignore[return-value]


@cache
def merged(ours: type, theirs: type) -> type:
    """One dataclass with the fields of both; not a subclass, since only one of them is frozen."""
    fields = {item[0]: item for cls in (ours, theirs) for item in fields_in(cls)}
    return dataclasses.make_dataclass(ours.__name__, fields.values())


def fields_in(kind: Any) -> list[tuple[str, Any, Any]]:
    """Name, type and default of each setting, as ``make_dataclass`` takes them."""
    hints, found = get_type_hints(kind), [item for item in dataclasses.fields(kind) if item.init]
    kept = [{"default": item.default, "default_factory": item.default_factory} for item in found]
    return [(item.name, hints[item.name], dataclasses.field(**have)) for item, have in zip(found, kept, strict=True)]  # type: ignore[arg-type]


def _give_type(config: DictConfig, node: str, kind: type) -> None:
    try:
        config[node] = OmegaConf.merge(OmegaConf.structured(kind), config[node])
    except ConfigKeyError as error:
        known = ", ".join(f.name for f in dataclasses.fields(kind))
        raise ConfigError(f"unknown key {node}.{error.full_key or error.key} (keys: {known})") from error
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0]
        raise ConfigError(f"{node}.{error.full_key}: {reason}") from error
