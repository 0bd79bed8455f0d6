"""What a process must not import that only holds a handle, asks for a port or balances requests."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = "print([name for name in ('torch', 'transformers', 'verl') if name in sys.modules])"
MODULES = ("verl_plugin.cpu.start.free_port", "verl_plugin.servers.transformers_server.server")
PICKLED = """
import pickle, sys, ray, verl_plugin
from verl.single_controller.ray import base
from verl.workers.rollout import router
sys.stdout.buffer.write(ray.cloudpickle.dumps([base.get_master_addr_port._function, router.GlobalRequestLoadBalancer]))
"""
LOADED = f"import pickle, sys; pickle.loads(sys.stdin.buffer.read()); {HEAVY}"


@pytest.mark.parametrize("module", MODULES)
def test_a_light_module_imports_nothing_heavy(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; {HEAVY}"], capture_output=True, text=True, check=True
    )
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
