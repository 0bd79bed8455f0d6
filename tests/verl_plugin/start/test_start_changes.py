"""What verl's processes do without on CPUs, and on CPUs alone."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import transformers
from transformers import Qwen3Config
from transformers.utils import import_utils
from verl.utils import model as verl_models

from verl_plugin.changes import AFTER_IMPORT
from verl_plugin.cpu.start.fast_start import read_models_once, skip_to_names, skip_vision_models

HEAVY = "print([name for name in ('torch', 'transformers', 'verl') if name in sys.modules])"
PICKLED = """
import pickle, sys, ray, verl_plugin
from verl.single_controller.ray import base
from verl.workers.rollout import router
sys.stdout.buffer.write(ray.cloudpickle.dumps([base.get_master_addr_port._function, router.GlobalRequestLoadBalancer]))
"""
LOADED = f"import pickle, sys; pickle.loads(sys.stdin.buffer.read()); {HEAVY}"
CHANGED = """
import verl_plugin, transformers.utils
from verl_plugin.hooks import HOOKS
print(transformers.utils.is_scipy_available(), *sorted(HOOKS))
"""


def test_a_port_is_found_without_anything_heavy() -> None:
    code = f"import sys, verl_plugin.cpu.start.free_port; {HEAVY}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_verls_port_task_and_load_balancer_travel_without_verl() -> None:
    """As Ray sends them from the trainer's process to another one."""
    sent = subprocess.run([sys.executable, "-c", PICKLED], capture_output=True, check=True).stdout
    done = subprocess.run([sys.executable, "-c", LOADED], input=sent, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_a_text_model_comes_without_scipy() -> None:
    code = "import verl_plugin, sys, transformers.modeling_utils; print('scipy.optimize' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_text_models_are_found_without_the_vision_models() -> None:
    skip_vision_models(verl_models)
    config = Qwen3Config(architectures=["Qwen3ForCausalLM"])
    assert verl_models.get_hf_auto_model_class(config) is verl_models.AutoModelForCausalLM
    critic = Qwen3Config(architectures=["Qwen3ForTokenClassification"])
    assert verl_models.get_hf_auto_model_class(critic) is verl_models.AutoModelForTokenClassification


def test_the_names_of_models_are_the_same_read_once() -> None:
    """By a copy of the module, which nothing has changed yet, and by the same one changed."""
    spec = importlib.util.spec_from_file_location("transformers.utils.a_copy", import_utils.__file__)
    assert spec and spec.loader
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    folder = Path(transformers.__file__).parent / "models"
    read, names = copy.create_import_structure_from_path, copy.fetch__all__
    theirs = copy.define_import_structure(folder)
    copy.define_import_structure.cache_clear()
    read.cache_clear()
    read_models_once(copy)
    skip_to_names(copy)
    assert copy.define_import_structure(folder) == theirs
    reads = read.cache_info().misses
    assert copy.define_import_structure(str(folder / "__init__.py")) == theirs
    assert reads > 400 and read.cache_info().misses == reads
    files = [
        "",
        "x = 1\n",
        "__all__ = ['a']",
        "x\n__all__ = [\n'a',\n'b',\n]\ny\n",
        "__all__ = ['a']\n__all__ = ['b']\n",
        "s = '__all__'",
    ]
    assert [copy.fetch__all__(file) for file in files] == [names(file) for file in files]


@pytest.mark.parametrize("platform", [{"VERL_PLATFORM": "cuda"}, {}], ids=["cuda", "found-by-verl"])
def test_processes_of_a_run_on_gpus_are_left_alone(platform: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VERL_PLATFORM"} | platform
    done = subprocess.run([sys.executable, "-c", CHANGED], env=environment, check=True, capture_output=True, text=True)
    scipy, *hooks = done.stdout.splitlines()[-1].split()
    assert scipy == "True"
    assert hooks == sorted({change.module for change in AFTER_IMPORT})
