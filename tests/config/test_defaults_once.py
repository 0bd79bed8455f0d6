"""Each default stands once, in YAML: dataclasses of settings type it, and an option's file repeats
no value of conf/config.yaml."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest
from omegaconf import OmegaConf

from turngrid.algorithms.chosen import method_class
from turngrid.algorithms.registry import ESTIMATORS, SLOTS
from turngrid.config.base import CONF
from turngrid.config.compose import compose
from turngrid.config.nodes import dotted
from turngrid.config.schema import NODES, Sft, Slurm, Top
from turngrid.envs.registry import ENVIRONMENTS, environment_class
from turngrid.rewards.registry import REWARDS, settings_class
from turngrid.rollouts.prompt_forms.registry import PROMPTS, prompt_class

KINDS = {
    "top": Top,
    "model.sft": Sft,
    "cluster.slurm": Slurm,
    **NODES,
    **{f"env={name}": environment_class(path).Settings for name, path in ENVIRONMENTS.items()},
    **{f"reward={name}": settings_class(name) for name in REWARDS},
    **{f"prompt={name}": prompt_class(name) for name in PROMPTS},
    **{f"algo={name}": method_class("algo", name, {}) for name in ESTIMATORS},
    **{f"{slot}={name}": method_class(slot, name, {}) for slot in SLOTS for name in SLOTS[slot]},
}


@pytest.mark.parametrize("name", KINDS)
def test_no_dataclass_has_a_default(name: str) -> None:
    kind: Any = KINDS[name]
    settings = [item for item in fields(kind) if item.init]
    assert [f.name for f in settings if f.default is not MISSING or f.default_factory is not MISSING] == []


def test_every_key_has_a_value() -> None:
    config = compose([])
    assert [key for node in NODES for key in OmegaConf.missing_keys(config[node])] == []


@pytest.mark.parametrize("group", [path.name for path in CONF.iterdir() if path.is_dir() and path.name in NODES])
def test_no_option_repeats_a_value_of_its_node_in_config_yaml(group: str) -> None:
    shared = dict(dotted(OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"))))
    for file in (CONF / group).glob("*.yaml"):
        node: Any = OmegaConf.to_container(OmegaConf.load(file))
        own = dict(dotted({group: node.get(group) or {}}))
        twice = [key for key, value in own.items() if not isinstance(value, dict) and shared.get(key, ...) == value]
        assert (file.stem, twice) == (file.stem, [])
