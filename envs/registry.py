"""The environments that ``env=NAME`` may name; a new one in this repository is one line here."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from turngrid.envs import extensions
from turngrid.envs.environment import Environment

ENVIRONMENTS: dict[str, str] = {
    "alfworld": "turngrid.envs.alfworld.environment:AlfWorld",
    "textworld": "turngrid.envs.textworld.environment:TextWorldCustom",
    "tw_simple": "turngrid.envs.textworld.environment:TwSimple",
    "swegym": "turngrid.envs.swegym.environment:SweGym",
    "repo_repair": "turngrid.envs.repair.environment:RepoRepair",
    "sokoban": "turngrid.envs.sokoban.environment:Sokoban",
    "webshop": "turngrid.envs.webshop.environment:WebShop",
    "babyai": "turngrid.envs.babyai.environment:BabyAI",
    "bfcl": "turngrid.envs.bfcl.environment:Bfcl",
    "crafting": "turngrid.envs.crafting.environment:Crafting",
    "search": "turngrid.envs.search.environment:Search",
    "scienceworld": "turngrid.envs.scienceworld.environment:ScienceWorld",
    "textworldexpress": "turngrid.envs.textworldexpress.environment:TextWorldExpress",
    "gym": "turngrid.envs.gym.environment:Gym",
    "textarena": "turngrid.envs.textarena.environment:TextArena",
    "two_player": "turngrid.envs.textarena.match_environment:TwoPlayer",
    "openenv": "turngrid.envs.openenv.environment:OpenEnv",
    "tau2": "turngrid.envs.tau2.environment:Tau2",
}


def spec(name: str) -> str:
    """Return ``module:Class`` of a name; a name of that form is returned unchanged.

    Raises:
        TaskError: no such environment; the message names the nearest one.
    """
    return extensions.path_of("env", name, ENVIRONMENTS)


def known(name: str) -> bool:
    """Return whether ``spec`` knows a name.

    Raises:
        TaskError: two packages offer one name.
    """
    return ":" in name or name in ENVIRONMENTS or name in extensions.installed("env", ENVIRONMENTS)


def make_environment(name: str, settings: Mapping[str, Any] | None = None) -> Environment:
    """Import and make the environment of that name.

    Args:
        name: a name of ours or of another package, or ``module:Class``.
        settings: the ``env`` node of a config, or a part of it; ``conf/env/NAME.yaml`` has the
            rest.

    Raises:
        TaskError: no such environment.
    """
    return load_environment(spec(name), {**extensions.shipped("env", name), **(settings or {})})


def load_environment(spec: str, settings: Mapping[str, Any]) -> Environment:
    """Return the environment of ``module:Class``."""
    cls = environment_class(spec)
    chosen = {field.name: plain(settings[field.name]) for field in fields(cls.Settings) if field.name in settings}
    return cls(cls.Settings(**chosen))


def environment_class(spec: str) -> type[Environment]:
    return extensions.load(spec)


def plain(value: Any) -> Any:
    """Make tuples of sequences, dicts of mappings: settings are frozen, and sent as JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(plain(item) for item in value)
    return value
