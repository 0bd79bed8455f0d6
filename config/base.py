"""Hydra's sources besides ``conf/``: verl's ``ppo_trainer`` tree, recipes, our resolvers.

verl's YAML files are read as files. Through ``pkg://verl...`` Hydra would import verl and torch
(nine seconds). On our search path verl's groups would mix with ours, where ``reward=`` and
``model=`` mean something else.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hydra import compose
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from turngrid.config import asynchronous, lora, machine, method_settings, precision, prompts
from turngrid.envs import extensions
from turngrid.records.process.exit_codes import Refusal

ROOT = Path(__file__).resolve().parent.parent
CONF = extensions.CONF
RECIPES = ROOT / "recipes"
BASE = "verl"  # the name of verl's tree in our defaults list
RESOLVERS = (  # resolvers, which conf/ calls as ${NAME:...}
    machine.gpu_rollout,
    machine.one_for_cores,
    machine.gpu_memory,
    machine.for_memory,
    machine.fused_kernels,
    machine.embedding_mib,
    machine.without_critic,
    machine.at_least,
    machine.importance_weights,
    machine.checkpoint_every,
    asynchronous.when_async,
    asynchronous.uncorrected,
    asynchronous.updates_of_a_step,
    lora.lr,
    precision.of_precision,
    precision.server_agrees,
    prompts.of_scale,
    prompts.answer_tokens,
    prompts.of_prompt,
    prompts.of_answers,
    method_settings.in_algo,
    method_settings.in_paper,
)


def verl_folder() -> Path:
    """Return the folder of verl's configuration without importing verl, or raise Refusal."""
    spec = find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise Refusal("verl is not installed; `make train` sets everything up, or: pip install verl==0.9.1")
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


@cache
def verl_tree() -> DictConfig:
    """Return verl's ``ppo_trainer`` with its own defaults, unresolved; do not change it."""
    tree = OmegaConf.load(verl_folder() / "_generated_ppo_trainer.yaml")
    assert isinstance(tree, DictConfig)
    return tree


@cache
def register() -> None:
    """Register our resolvers with OmegaConf and the recipes with Hydra."""
    for resolver in RESOLVERS:
        OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)
    for path in sorted(RECIPES.glob("*.yaml")):
        package = "_global_" if "# @package _global_" in path.read_text(encoding="utf-8") else None
        ConfigStore.instance().store(group="recipe", name=path.stem, node=OmegaConf.load(path), package=package)


def store_tree(tree: DictConfig | dict[str, object]) -> None:
    """Let Hydra find ``tree`` where our defaults list asks for verl's."""
    ConfigStore.instance().store(name=BASE, node=tree)


def hydra_config(overrides: Sequence[str], whole: bool = True) -> DictConfig:
    """Let Hydra compose ``conf/`` on top of verl's tree, or of an empty one."""
    store_tree(verl_tree() if whole else {})
    return compose("config", overrides=list(overrides))
