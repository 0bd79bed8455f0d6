"""Types of the settings of methods (``credit``, ``algo``, ...), and verl's keys that they need."""

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.chosen import TARGET, Chosen, estimator_of, is_schedule, method_class, slots_of
from turngrid.algorithms.registry import ALGO, ESTIMATORS, SLOTS, on_turns
from turngrid.config.asynchronous import SYNC, mode
from turngrid.config.errors import ConfigError
from turngrid.config.nodes import fields_in, merged, refuse_missing, typed
from turngrid.envs.extensions import UnknownName
from turngrid.tasks.schema import Algo

HEADS = "critic.model.override_config.value_heads"
OFF = "${oc.decode:'false'}"  # false, but not as typed: typed values are part of a run's name
PAPER = "paper"  # the scale at which conf/algo/ has the paper's values


def give_types(config: DictConfig) -> None:
    """Type the settings of every chosen method in place.

    Raises:
        ConfigError: there is no such method or setting, or a value is invalid.
    """
    for slot in SLOTS:
        for name, node in (config.get(slot) or {}).items():
            node = node or OmegaConf.create()
            config[slot][name] = _typed(_class(slot, str(name), node), node, f"{slot}.{name}.")
    name = str(config.algo.get("name"))
    kind: Any = Algo
    if on_turns(name):
        own = _class(ALGO, name, {})
        if lacking := next((word for word in ("grain", "needs") if not hasattr(own, word)), None):
            reason = f"no estimator over turns: its class has no {lacking}"
            raise ConfigError(f"algo.name={name}: {reason}; declare it (algorithms/slots.py), or use algo=grpo")
        kind = merged(Algo, own)
    config.algo = _typed(kind, config.algo, f"{ALGO}.")


def kinds(config: DictConfig, slot: str) -> Iterator[tuple[str, Any]]:
    """Yield the chosen methods of a slot by name, each as its class."""
    for name, node in (config.get(slot) or {}).items():
        yield str(name), method_class(slot, str(name), node)


def first_fitting(slot: str, fits: Any) -> str:
    """Return our first method of a slot whose class fits. Imports methods: for messages only."""
    return next(name for name in (ESTIMATORS if slot == ALGO else SLOTS[slot]) if fits(method_class(slot, name, {})))


def _class(slot: str, name: str, settings: Any) -> Any:
    try:
        return method_class(slot, name, settings)
    except UnknownName as error:
        raise ConfigError(f"algo.name={name}: {error}" if slot == ALGO else str(error)) from error


def _typed(kind: Any, node: DictConfig, prefix: str) -> DictConfig:
    """Type the settings but ``target`` and those that follow a schedule."""
    plain: Any = OmegaConf.to_container(node, resolve=False)
    kept = {key: value for key, value in plain.items() if is_schedule(kind, key, value)}
    if prefix != f"{ALGO}." and TARGET in plain:  # ``algo.name`` itself takes module:Name
        kept[TARGET] = plain[TARGET]
    settings = dataclasses.make_dataclass(kind.__name__, fields_in(kind))
    checked = typed(settings, {key: value for key, value in plain.items() if key not in kept}, prefix, partly=True)
    values: Any = OmegaConf.to_container(checked, resolve=False)
    result = OmegaConf.create({**values, **kept})  # untyped, since a schedule may replace a number
    refuse_missing(result, prefix)
    return result


def methods_of(config: DictConfig) -> Chosen:
    """Make the methods of a config; raise ConfigError if one refuses its settings."""
    nodes = slots_of(config)
    try:
        return Chosen(nodes)
    except (ValueError, TypeError) as error:
        chosen = [f"{slot}=[{','.join(nodes[slot])}]" for slot in SLOTS if nodes[slot]]
        chosen += [f"{ALGO}={name}" for name in estimator_of(nodes[ALGO])]
        raise ConfigError(f"{', '.join(chosen)}: {error}") from error


def has_critic(config: DictConfig) -> bool:
    enabled = config.critic.enable
    return bool(config.algorithm.adv_estimator == "gae" if enabled is None else enabled)


def fill_in(config: DictConfig) -> None:
    """Set the keys of verl that the chosen methods need."""
    if not any(config.get(slot) for slot in SLOTS) and not on_turns(config.algo.name):
        return
    chosen = methods_of(config)
    needs = chosen.needs()
    if (heads := chosen.heads()) > 1 and OmegaConf.select(config, HEADS) is None:
        OmegaConf.update(config, HEADS, heads, force_add=True)
    if "values" in needs and config.critic.enable is None:
        config.critic.enable = True  # verl by itself trains one only for ``gae``
    if "teacher" in needs:
        config.algorithm.use_kl_in_reward = True  # its log-probs are computed as those of a reference policy
    correction = config.algorithm.rollout_correction
    typed = not OmegaConf.is_interpolation(correction, "bypass_mode")
    if own_pass(config, needs) and not (typed and correction.bypass_mode):  # that is refused
        correction.bypass_mode = OFF
    if "entropy" in needs:
        config.actor_rollout_ref.actor.calculate_entropy |= bool(config.get("terms"))
    for name, method in chosen.of("filter", 1).items():
        if sampler := getattr(method, "sampler", None):
            custom = dict(zip(("path", "name"), sampler, strict=True))
            OmegaConf.update(config, "trainer.v1.sampler.custom_sampler", custom)
            OmegaConf.update(config, "trainer.v1.sampler.sampler_kwargs", config.filter[name], force_add=True)


def own_pass(config: DictConfig, needs: Collection[str]) -> bool:
    """Return whether methods need the trainer's pass for old log-probs, whatever bypass_mode says.

    vLLM and verl's asynchronous client report no entropy.
    """
    server_reports = mode(config) == SYNC and config.actor_rollout_ref.rollout.name == "transformers"
    return "log_probs" in needs or ("entropy" in needs and not server_reports)


def in_algo(ours: Any, theirs: Any, *words: str, _root_: DictConfig) -> Any:
    """Resolve ``${in_algo:OURS,THEIRS,WORDS}``: THEIRS if ``algo=`` is one of WORDS, else OURS.

    Used in a method's YAML: an ``algo=`` YAML cannot set a method's keys, since a run with that
    ``algo=`` may leave the method out.
    """
    return theirs if _root_.algo.name in words else ours


def in_paper(ours: Any, theirs: Any, *words: str, _root_: DictConfig) -> Any:
    """Resolve ``${in_paper:OURS,THEIRS,WORDS}``: THEIRS at ``scale=paper`` with one of WORDS."""
    meant = not words or _root_.algo.name in words
    return theirs if meant and _root_.scale.name == PAPER else ours
