"""Types of the settings of methods (``credit``, ``algo``, ...), and the keys of verl that methods
need.

It is imported, and torch with it, only if a config chooses a method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from turngrid.algorithms.chosen import TARGET, Chosen, estimator_of, is_schedule, method_class, slots_of
from turngrid.algorithms.registry import ALGO, ESTIMATORS, SLOTS, on_turns
from turngrid.config.asynchronous import SYNC, mode
from turngrid.config.errors import ConfigError
from turngrid.config.nodes import fields_in, merged
from turngrid.config.schema import Algo
from turngrid.envs.extensions import UnknownName
from turngrid.envs.utils.names import nearest

HEADS = "critic.model.override_config.value_heads"
PAPER = "paper"  # the scale at which conf/algo/ has the paper's values


def give_types(config: DictConfig) -> None:
    """Type the settings of every chosen method in place.

    Raises:
        ConfigError: there is no such method or setting, or a value is invalid.
    """
    for slot in SLOTS:
        for name, node in (config.get(slot) or {}).items():
            node = node or OmegaConf.create()
            config[slot][name] = _typed(_class(slot, str(name), node), node, f"{slot}.{name}")
    name = str(config.algo.get("name"))
    kind = merged(Algo, _estimator(name)) if on_turns(name) else Algo
    config.algo = _typed(kind, config.algo, ALGO)


def kinds(config: DictConfig, slot: str) -> Iterator[tuple[str, Any]]:
    """Yield the chosen methods of a slot by name, each as its class."""
    for name, node in (config.get(slot) or {}).items():
        yield str(name), method_class(slot, str(name), node)


def that(slot: str, fits: Any) -> str:
    """Return our first method of a slot whose class fits. Imports methods: for messages only."""
    return next(name for name in (ESTIMATORS if slot == ALGO else SLOTS[slot]) if fits(method_class(slot, name, {})))


def _class(slot: str, name: str, settings: Any) -> Any:
    try:
        return method_class(slot, name, settings)
    except UnknownName as error:
        raise ConfigError(str(error)) from error


def _estimator(name: str) -> Any:
    try:
        kind = method_class(ALGO, name, {})
    except UnknownName as error:
        raise ConfigError(f"algo.name={name}: {error}") from error
    if lacking := next((word for word in ("grain", "needs") if not hasattr(kind, word)), None):
        raise ConfigError(f"algo.name={name} is no estimator: it has no {lacking} (algorithms/slots.py)")
    return kind


def _typed(kind: Any, node: DictConfig, path: str) -> DictConfig:
    plain: Any = OmegaConf.to_container(node, resolve=False)
    known = {item.name: item for item in dataclasses.fields(kind) if item.init}
    taken = known if path == ALGO else {*known, TARGET}  # ``algo.name`` itself takes module:Name
    if unknown := next((key for key in plain if key not in taken), None):
        raise ConfigError(f"unknown key {path}.{unknown}; {_meant(unknown, list(known), f'{path}.')}")
    kept = {key: value for key, value in plain.items() if key == TARGET or is_schedule(kind, key, value)}
    typed = _structured(kind, {key: value for key, value in plain.items() if key not in kept}, path)
    for key, value in kept.items():
        typed[key] = value
    values: Any = OmegaConf.to_container(typed, resolve=False)
    if missing := next((key for key, value in values.items() if value == MISSING), None):
        slot, _, name = path.partition(".")
        word = f"{slot}={name}, whose file has it" if name in SLOTS.get(slot, ()) else f"{path}.{missing}=VALUE"
        raise ConfigError(f"{path}.{missing} must be given; use {word}")
    return typed


def _meant(word: str, known: Sequence[str], place: str = "") -> str:
    near = nearest(word, known, 0.6)
    return f"did you mean {place}{near}?" if near else f"it has: {', '.join(known)}"


def _structured(kind: Any, given: dict[str, Any], path: str) -> DictConfig:
    settings = dataclasses.make_dataclass(kind.__name__, fields_in(kind))
    try:
        typed = OmegaConf.merge(OmegaConf.structured(settings), given)
    except ConfigKeyError as error:  # its own keys are known by now
        part: Any = error.object_type
        meant = _meant(str(error.key), [item.name for item in dataclasses.fields(part)])
        raise ConfigError(f"unknown key {error.key} in a {part.__name__} of {path}; {meant}") from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"{path}.{error.full_key}: {str(error).splitlines()[0]}") from error
    plain: Any = OmegaConf.to_container(typed, resolve=False)
    return OmegaConf.create(plain)  # untyped, since a schedule may replace a number


def made(config: DictConfig) -> Chosen:
    """Make the methods of a composed config.

    Raises:
        ConfigError: a method refuses its settings.
    """
    nodes = slots_of(config)
    try:
        return Chosen(nodes)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{_chosen(nodes)}: {error}") from error


def has_critic(config: DictConfig) -> bool:
    """Return whether verl trains a critic."""
    enabled = config.critic.enable
    return bool(config.algorithm.adv_estimator == "gae" if enabled is None else enabled)


def fill_in(config: DictConfig) -> None:
    """Set the keys of verl that the chosen methods need.

    - Entropy of the policy that sampled: if the rollout server does not report it, verl computes it
      in a separate pass, which ``bypass_mode`` would skip. Entropy with a gradient, for a loss
      term: the update computes it too.
    - Values: a critic, which verl by itself trains only for its own ``gae``; and its heads, if
      there are several.
    - A teacher: its log-probs, computed as verl computes those of a reference policy.
    - Another sampler of prompts: verl's replay buffer is replaced.
    """
    if not any(config.get(slot) for slot in SLOTS) and not on_turns(config.algo.name):
        return
    chosen = made(config)
    needs = chosen.needs()
    if (heads := chosen.heads()) > 1 and OmegaConf.select(config, HEADS) is None:
        OmegaConf.update(config, HEADS, heads, force_add=True)
    if "values" in needs and config.critic.enable is None:
        config.critic.enable = True
    if "teacher" in needs:
        config.algorithm.use_kl_in_reward = True
    if "entropy" in needs:
        config.algorithm.rollout_correction.bypass_mode &= server_tells_entropies(config)
        config.actor_rollout_ref.actor.calculate_entropy |= bool(config.get("terms"))
    for name, method in chosen.of("filter", 1).items():
        if sampler := getattr(method, "sampler", None):
            custom = dict(zip(("path", "name"), sampler, strict=True))
            OmegaConf.update(config, "trainer.v1.sampler.custom_sampler", custom)
            OmegaConf.update(config, "trainer.v1.sampler.sampler_kwargs", config.filter[name], force_add=True)


def server_tells_entropies(config: DictConfig) -> bool:
    """Return whether the server reports entropies; vLLM and verl's asynchronous client do not."""
    return mode(config) == SYNC and config.actor_rollout_ref.rollout.name == "transformers"


def _chosen(nodes: dict[str, Any]) -> str:
    chosen = [f"{slot}=[{','.join(nodes[slot])}]" for slot in SLOTS if nodes[slot]]
    return ", ".join([*chosen, *(f"{ALGO}={name}" for name in estimator_of(nodes[ALGO]))])


def in_algo(ours: Any, theirs: Any, *words: str, _root_: DictConfig) -> Any:
    """Resolve ``${in_algo:OURS,THEIRS,WORDS}``: THEIRS if ``algo=`` is one of WORDS, else OURS.

    The file of a method uses it, since an option of ``algo=`` cannot set keys of a method that the
    command line may not choose.
    """
    return theirs if _root_.algo.name in words else ours


def in_paper(ours: Any, theirs: Any, *words: str, _root_: DictConfig) -> Any:
    """Resolve ``${in_paper:OURS,THEIRS,WORDS}``: THEIRS at ``scale=paper`` with one of WORDS, else
    OURS.
    """
    meant = not words or _root_.algo.name in words
    return theirs if meant and _root_.scale.name == PAPER else ours
