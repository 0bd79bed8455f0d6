"""The base is verl's own config, our types lie beside it, and our files set what verl has."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from benchmarks.verl_schema import schema
from turngrid.algorithms.chosen import method_class
from turngrid.algorithms.registry import ESTIMATORS, SLOTS, VERLS_LOSSES
from turngrid.config.base import CONF, ROOT, verl_folder, verl_tree
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.values.verl_limits import FILE
from turngrid.envs.registry import ENVIRONMENTS, environment_class
from turngrid.rewards.registry import REWARDS, settings_class
from turngrid.rollouts.prompt_forms.registry import PROMPTS, prompt_class
from turngrid.tasks.schema import NODES, Top

# verl's trees leave these out; the engine, model, Ray and agent-loop settings behind them take them
# all the same
OPEN_KEYS = (
    "actor_rollout_ref.actor.fsdp_config.mixed_precision",
    "actor_rollout_ref.ref.fsdp_config.mixed_precision",
    "critic.fsdp.mixed_precision",
    "actor_rollout_ref.model.override_config",
    "critic.model.override_config",
    "critic.ppo_infer_max_token_len_per_gpu",
    "actor_rollout_ref.rollout.agent.agent_loop_manager_class",
    "actor_rollout_ref.rollout.checkpoint_engine.engine_kwargs",
    "ray_kwargs.ray_init",
)
OURS = (*NODES, *Top.__dataclass_fields__, "defaults", "hydra")
FILES = sorted(CONF.rglob("*.yaml"))


def test_the_base_is_what_verls_files_make() -> None:
    with initialize_config_dir(str(verl_folder()), version_base=None):
        made = OmegaConf.to_container(hydra_compose("ppo_trainer"))
    made.pop("model_engine")  # steers verl's defaults list
    assert OmegaConf.to_container(verl_tree()) == made


def test_answers_without_torch_or_verl() -> None:
    code = (
        "import json, sys, time; from turngrid.train.app import main; code = main(['--help']) + main(['--cfg', 'job']);"
        "heavy = [name for name in ('torch', 'verl', 'ray', 'transformers', 'textworld') if name in sys.modules];"
        "print(json.dumps({'code': code, 'heavy': heavy, 'seconds': time.process_time()}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    answer = json.loads(done.stderr.splitlines()[-1])
    assert answer["code"] == 0
    assert answer["heavy"] == []
    assert answer["seconds"] < 5, "about 1.3 s of CPU on an idle core"
    assert "reinforce_plus_plus" in done.stdout and "run_name: null" in done.stdout


def _leaves(node: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _leaves(value, f"{prefix}{key}.")
    else:
        yield prefix.removesuffix(".")


LOSSES = [CONF / "loss" / f"{name}.yaml" for name in VERLS_LOSSES]
METHODS = [file for file in FILES if file.parent.name in SLOTS and file not in LOSSES]
OF_VERL = [*LOSSES, *(CONF / "correction").glob("*.yaml")]  # without a node of ours
OPTIONS = [file for file in FILES if file.parent != CONF and file not in [*METHODS, *OF_VERL]]


def test_files_set_only_keys_that_exist() -> None:
    for file in {*FILES} - {*METHODS}:
        keys = [key for key in _leaves(yaml.safe_load(file.read_text())) if key.split(".")[0] not in {*OURS, *SLOTS}]
        assert (file, [key for key in keys if not key.startswith(OPEN_KEYS) and not _has(key)]) == (file, [])


def _has(key: str) -> bool:
    parent, _, leaf = key.rpartition(".")
    node = OmegaConf.select(verl_tree(), parent) if parent else verl_tree()
    return OmegaConf.is_dict(node) and leaf in list(node)  # `in node` says no to a key that is ???


def test_an_option_is_named_like_its_file() -> None:
    others = {"reward": "turn_reward", "rollout": "actor_rollout_ref.rollout"}
    for file in OPTIONS:
        node = OmegaConf.select(OmegaConf.load(file), others.get(file.parent.name, file.parent.name))
        assert node.name == file.stem
        assert file.read_text().startswith("# @package _global_\n"), file


def test_a_method_has_a_file_with_all_of_its_settings() -> None:
    for file in METHODS:
        slot, name = file.parent.name, file.stem
        node = OmegaConf.load(file)
        settings = (OmegaConf.select(node, f"{slot}.{name}") or {}) if "_global_" in file.read_text() else node
        assert set(settings) == {item.name for item in fields(method_class(slot, name, {})) if item.init}, file
        assert file.read_text().startswith((f"# @package {slot}.{name}\n", "# @package _global_\n")), file


def test_a_default_stands_in_a_file_alone() -> None:
    """``DataSetSettings`` has some, for other packages' environments; ours override them."""
    kinds = [*NODES.values(), Top, *map(settings_class, REWARDS), *map(prompt_class, PROMPTS)]
    kinds += [environment_class(spec).Settings for spec in ENVIRONMENTS.values()]
    kinds += [method_class(file.parent.name, file.stem, {}) for file in METHODS]
    kinds += [method_class("algo", name, {}) for name in ESTIMATORS]
    settings = [(kind, item) for kind in kinds for item in fields(kind) if item.init]
    wrong = [item for item in settings if {item[1].default, item[1].default_factory} != {MISSING}]
    assert wrong == []


def test_the_file_is_that_of_the_installed_verl() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == schema(), "run python -m benchmarks.verl_schema"


# ---- recipes


RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_can_be_launched(path: Path) -> None:
    assert check(compose([f"recipe={path.stem}"])) == []
