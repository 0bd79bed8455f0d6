"""Which options and keys there are, and which of them the user probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from hydra import compose
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from algorithms.registry import ONE, SLOTS
from config import base
from config.errors import ConfigError
from envs import extensions
from envs.utils.names import meant, nearest

# Node -> the group whose options add settings of their own to it
GROUP_OF = {"env": "env", "turn_reward": "reward", "prompt": "prompt", "algo": "algo"}
# Methods of the field that no option stands for: why, and what is nearest
NOT_OFFERED = {
    "igpo": "it rewards turns by the log-prob of a gold answer, which no environment here has; the nearest is algo=mt_grpo",
    "early_experience": "it makes data for SFT: choose demos.experience=world_model or reflection",
    "agent_rlvr": "it plays failed tasks again with guidance: choose rollout_form=retry",
    "archer": "its critic learns off-policy, of stored turns; the nearest is algo=turn_ppo",
    "sweet_rl": "its critic sees what the policy does not, and the policy learns by DPO; the nearest is algo=turn_ppo",
    "vineppo": "it plays every turn's state anew, many times the episodes; the nearest are algo=gigpo and graft",
    "seea_r1": "its formulas are not public; the nearest is algo=tree_grpo",
}


@cache
def groups() -> dict[str, list[str]]:
    """Our groups and their options."""
    folders = [path for path in base.CONF.iterdir() if path.is_dir() and any(path.glob("*.yaml"))]
    found = {path.name: sorted(option.stem for option in path.glob("*.yaml")) for path in folders}
    found["recipe"] = sorted(path.stem for path in base.RECIPES.glob("*.yaml"))
    return dict(sorted(found.items()))


def all_options() -> dict[str, list[str]]:
    """Those of other packages too. Raises: ConfigError: those cannot be told apart."""
    offered = of_packages()
    return {group: sorted({*ours, *offered.get(group, ())}) for group, ours in groups().items()}


def of_packages() -> dict[str, dict[str, Path]]:
    """Other packages' options by group and name. Raises: ConfigError: they cannot be told apart."""
    try:
        return extensions.options()
    except extensions.UnknownName as error:
        raise ConfigError(str(error)) from error


def from_elsewhere(overrides: Iterable[Override]) -> bool:
    """Whether a choice is not among our own options."""
    chosen = (override for override in overrides if override.key_or_group in groups())
    return any(name not in groups()[override.key_or_group] for override in chosen for name in _names(override))


def _names(override: Override) -> list[str]:
    value = override.value()
    return [str(name) for name in (value if isinstance(value, list) else [value]) if name is not None]


@cache
def tree_with(*choices: str) -> DictConfig:
    """The keys that exist with these options."""
    try:
        return compose("config", overrides=list(choices))
    except Exception:  # noqa: BLE001 - a broken option file: the defaults' keys are the best there is
        return compose("config")


def wrong_option(override: Override) -> str | None:
    """The first that does not exist. Ours are asked first: other packages' options take a while to find."""
    group, value = override.key_or_group, override.value()
    names = _names(override) if isinstance(value, list) else [str(value)]
    wrong = next((name for name in names if name not in groups()[group] and name not in all_options()[group]), None)
    if wrong is None:
        return None
    options = all_options()[group]
    if group == "model" and "/" in wrong:
        return f"unknown option model={wrong}; a folder or a name of the Hugging Face hub is model.path={wrong}"
    if why := _not_here(group, wrong):
        return f"unknown option {group}={wrong}: {why} (choices of {group}: {', '.join(options)})"
    return f"unknown option {group}={wrong}{meant(wrong, options, f'{group}=')} (choices: {', '.join(options) or 'none yet'})"


def _not_here(group: str, name: str) -> str | None:
    """Of a method: in which other slot it is, and what is named after it in its own, or why it is in none."""
    slots, options = ("algo", *SLOTS), all_options()
    if group not in slots:
        return None
    found = [(slot, name) for slot in slots if name in options[slot]]
    if not found:
        return NOT_OFFERED.get(name.lower().replace("-", "_"))
    named = [*((group, other) for other in options[group] if name in other), *found]
    return "choose " + " or ".join(f"{slot}={it}" if slot in (*ONE, "algo") else f"{slot}=[{it}]" for slot, it in named)


def wrong_key(override: Override, tree: DictConfig) -> str | None:
    key = override.key_or_group
    if key in groups() or override.is_add() or override.is_force_add() or key.startswith("hydra"):
        return None
    if exists(tree, key):
        return None
    not_chosen = _not_chosen(key, tree) or _of_other_options(key, tree)
    return not_chosen or f"unknown key {key}{_meant_key(key, tree)}"


def _not_chosen(key: str, tree: DictConfig) -> str | None:
    """A setting of a method that is not among those of its slot."""
    slot, _, name = key.rpartition(".")[0].partition(".")
    if slot not in SLOTS or name not in all_options()[slot] or name in (chosen := list(tree.get(slot) or {})):
        return None
    choice = name if slot in ONE else f"[{','.join([*chosen, name])}]"
    return f"{key} is a setting of {slot}={name}, which is not chosen: add {slot}={choice}"


def _of_other_options(key: str, tree: DictConfig) -> str | None:
    """A setting that other options of a group have, as ``env.id``; not one that stands under ``algorithm``."""
    node, _, name = key.partition(".")
    if node not in GROUP_OF or not name or (node == "algo" and exists(tree, f"algorithm.{name}")):
        return None
    group = GROUP_OF[node]
    files = sorted((base.CONF / group).glob("*.yaml"))
    having = [f"{group}={file.stem}" for file in files if exists(OmegaConf.load(file), key)]
    choice = "it" if len(having) == 1 else "one"
    return f"{key} is a setting of {' and '.join(having)} alone: choose {choice}" if having else None


def exists(tree: object, key: str) -> bool:
    node: object = tree
    for part in key.split("."):
        if not isinstance(node, DictConfig) or part not in node:
            return False
        node = node._get_node(part)
    return True


def _meant_key(key: str, tree: DictConfig) -> str:
    """The nearest path; else ``lr`` for ``actor_rollout_ref.actor.optim.lr``, the right name in the wrong place, the shortest
    first; else the nearest of all keys."""
    keys = list(_keys(tree))
    same_leaf = [other for other in keys if other.rsplit(".", 1)[-1] == key.rsplit(".", 1)[-1]]
    near = _walk(tree, key.split(".")) or sorted(same_leaf, key=lambda name: (name.count("."), name))[:3]
    near = near or [nearest(key, [*keys, *groups()], cutoff=0.6)]
    near = [name for name in near if name and not key.startswith(f"{name}.")]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _walk(tree: DictConfig, parts: list[str]) -> list[str]:
    """Mend the key part by part, each among the parts that are possible there."""
    node: object = tree
    mended: list[str] = []
    for part in parts:
        if not isinstance(node, DictConfig):
            return []
        names = [str(name) for name in node] + ([] if mended else list(groups()))
        near = nearest(part, names, cutoff=0.6)
        if not near:
            return []
        mended.append(near)
        node = node._get_node(near) if near in node else None
    return [".".join(mended)]


def _keys(node: DictConfig, prefix: str = "") -> Iterable[str]:
    for name in node:
        yield f"{prefix}{name!s}"
        child = node._get_node(name)
        if (
            isinstance(child, DictConfig)
            and not child._is_none()
            and not child._is_missing()
            and not child._is_interpolation()
        ):
            yield from _keys(child, f"{prefix}{name!s}.")
