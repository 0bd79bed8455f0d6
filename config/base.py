"""What lies under every config: verl's composed ``ppo_trainer`` tree and the types of our own nodes.

verl's YAML files are read as files. Through ``pkg://verl...`` Hydra would import verl and torch (nine seconds), and on
our search path verl's groups would mix with ours: ``reward=`` and ``model=`` mean something else there.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from algorithms.chosen import ALGO
from config import asynchronous, cards, lora, machine, method_settings, prompts, quick
from config.nodes import OPEN
from config.schema import NODES, Top
from envs import extensions
from records.process.exit_codes import Refusal

ROOT = Path(__file__).resolve().parent.parent
CONF = extensions.CONF
RECIPES = ROOT / "recipes"
BASE = "verl"  # the name of verl's tree in our defaults list
RESOLVERS = (  # what conf/ asks, each as ${NAME:...}
    machine.gpu_rollout,
    machine.one_for_cores,
    cards.gpu_memory,
    cards.for_memory,
    cards.without_critic,
    cards.at_least,
    cards.importance_weights,
    cards.checkpoint_every,
    asynchronous.when_async,
    asynchronous.updates_of_a_step,
    lora.lr,
    prompts.of_scale,
    prompts.answer_tokens,
    prompts.of_prompt,
    prompts.of_answers,
    method_settings.in_algo,
    method_settings.in_paper,
)


class VerlMissing(Refusal):
    """verl is not installed in this Python."""


def verl_folder() -> Path:
    """Where verl's configuration lies, without importing verl.

    Raises:
        VerlMissing: it lies nowhere.
    """
    spec = find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise VerlMissing("verl is not installed; `make train` sets everything up, or: pip install verl==0.9.1")
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


@cache
def verl_tree() -> DictConfig:
    """verl's ``ppo_trainer`` with its own defaults, unresolved, as verl's own script has written it out. Nobody may change it."""
    quick.install()
    return OmegaConf.load(verl_folder() / "_generated_ppo_trainer.yaml")


@cache
def register() -> None:
    """Tell OmegaConf our resolvers, and Hydra's ConfigStore the base, the types and the recipes."""
    quick.install()
    for resolver in RESOLVERS:
        OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)
    store = ConfigStore.instance()
    store.store(name=BASE, node=verl_tree())
    store.store(name="schema", node=_schema())
    for path in sorted(RECIPES.glob("*.yaml")):
        register_option("recipe", path)


def _schema() -> DictConfig:
    """Typed nodes beside verl's untyped ones, so not one dataclass: that would refuse verl's keys."""
    types = OmegaConf.structured(Top)
    schema = OmegaConf.create(dict(NODES))
    for node in (*OPEN, ALGO):
        schema[node] = OmegaConf.to_container(schema[node])
    for field in fields(Top):
        schema._set_item_impl(field.name, types._get_node(field.name))
    return schema


def register_option(group: str, path: Path) -> None:
    """Offer one YAML file as ``GROUP=NAME``, as if it lay in ``conf/GROUP/``."""
    package = "_global_" if "# @package _global_" in path.read_text(encoding="utf-8") else None
    node = OmegaConf.load(path)
    ConfigStore.instance().store(group=group, name=path.stem, node=node, package=package)
