"""Lists the existing options and keys, and finds the nearest one to a typo."""

from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from turngrid.algorithms.registry import ONE, SLOTS
from turngrid.config import base
from turngrid.config.errors import ConfigError
from turngrid.envs import extensions
from turngrid.envs.utils.names import meant, nearest
from turngrid.records.run_folder import dotted

WITH_SETTINGS = ("env", "reward", "prompt", "algo", *SLOTS)  # groups whose options have settings of their own


@cache
def groups() -> dict[str, list[str]]:
    """Return the options in ``conf/`` and ``recipes/`` by group."""
    folders = [path for path in base.CONF.iterdir() if path.is_dir() and any(path.glob("*.yaml"))]
    options = {path.name: sorted(option.stem for option in path.glob("*.yaml")) for path in folders}
    options["recipe"] = sorted(path.stem for path in base.RECIPES.glob("*.yaml"))
    return dict(sorted(options.items()))


def all_options() -> dict[str, list[str]]:
    """Return the options by group, with those of other packages (``of_packages``)."""
    offered = of_packages()
    return {group: sorted({*ours, *offered.get(group, ())}) for group, ours in groups().items()}


def of_packages() -> dict[str, dict[str, Path]]:
    """Return other packages' options by group and name; ConfigError if two offer the same."""
    try:
        return extensions.options()
    except extensions.UnknownName as error:
        raise ConfigError(str(error)) from error


def wrong_option(override: Override) -> str | None:
    """Explain the first chosen option that does not exist; None if all do."""
    group, value = override.key_or_group, override.value()
    options, names = all_options()[group], map(str, value if isinstance(value, list) else [value])
    wrong = next((name for name in names if name not in options), None)
    if wrong is None:
        return None
    if group == "model" and "/" in wrong:
        return f"unknown option model={wrong}; use model.path={wrong} for a folder or a name of the Hugging Face hub"
    choices = f"(choices of {group}: {', '.join(options) or 'none yet'})"
    if elsewhere := [_choice(other, wrong) for other in WITH_SETTINGS if wrong in all_options()[other]]:
        return f"unknown option {group}={wrong}; use {' or '.join(elsewhere)} {choices}"
    return f"unknown option {group}={wrong}{meant(wrong, options, f'{group}=')} {choices}"


def _choice(group: str, *names: str) -> str:
    """Return what to type; a slot of several methods takes a list."""
    return f"{group}=[{','.join(names)}]" if group in SLOTS and group not in ONE else f"{group}={names[-1]}"


@cache
def keys_with(*choices: str) -> dict[str, Any]:
    """Return every key of the config composed with these overrides, dotted, with its value."""
    try:
        config = base.hydra_config(choices)
    except Exception:  # noqa: BLE001 - a broken file of the user: suggest from the default config
        config = base.hydra_config([])
    return dict(dotted(OmegaConf.to_container(config)))


def wrong_key(override: Override, keys: dict[str, Any]) -> str | None:
    """Explain a key that does not exist; None if it does, or is added by ``+``."""
    key = override.key_or_group
    if key in groups() or key in keys or override.is_add() or override.is_force_add() or key.startswith("hydra."):
        return None
    if key.startswith("algo.") and (verls := key.replace("algo.", "algorithm.", 1)) in keys:
        return f"unknown key {key}; use {verls}"
    owners = [option for option, own in _keys_of_options().items() if key in own]  # env.id is in gym and textarena
    if use := [_choice(group, *((keys.get(group) or ()) if group in SLOTS else ()), name) for group, name in owners]:
        return f"{key} is a setting of another option; use {' or '.join(use)}"
    near = _near(key, keys)
    return f"unknown key {key}" + (f"; use {near}" if near else "")


def _near(key: str, keys: dict[str, Any]) -> str:
    """Return the key that is spelled alike, else those of the same name, else those of its node."""
    (node, _, leaf), words = key.rpartition("."), [*keys, *([] if "." in key else groups())]
    same_leaf = sorted((known for known in keys if known.endswith(f".{leaf}")), key=lambda name: name.count("."))
    near = nearest(key, words, cutoff=0.85) or " or ".join(same_leaf[:3]) or nearest(key, words, cutoff=0.6)
    if node not in keys or near not in ("", node):
        return near
    names = [name for parent, _, name in (known.rpartition(".") for known in keys) if parent == node]
    return f"a key of {node}: {', '.join(names)}"


@cache
def _keys_of_options() -> dict[tuple[str, str], frozenset[str]]:
    """Return the keys that an option's file sets, of ``WITH_SETTINGS``, by group and name."""
    options = [(group, name) for group in WITH_SETTINGS for name in groups()[group]]
    keys = {}
    for group, name in options:
        file = base.CONF / group / f"{name}.yaml"
        prefix = "" if "@package _global_" in file.read_text(encoding="utf-8") else f"{group}.{name}."
        keys[group, name] = frozenset(dict(dotted(OmegaConf.to_container(OmegaConf.load(file)), prefix)))
    return keys
