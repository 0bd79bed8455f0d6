"""What is changed in verl, against the verl that is installed: a new version that breaks an entry is told which."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import subprocess
import sys
import textwrap

import pytest
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from verl_plugin.changes import AFTER_IMPORT, BY_US, Change
from verl_plugin.overrides import overrides
from verl_plugin.training.trainer import StepTrainer

CHANGES = (*AFTER_IMPORT, *BY_US)

# Without the plugin: verl as it is.
STOCK = """
import importlib, inspect, json, sys

def found(module, name):
    thing = importlib.import_module(module)
    for part in name.split("(")[0].split("."):
        thing = inspect.getattr_static(thing, part, None) or getattr(thing, part)
    thing = getattr(thing, "_function", thing)
    if "(" not in name:
        return name
    return f"{name.split('(')[0]}({', '.join(inspect.signature(thing).parameters)})"

answers = []
for module, name in json.load(sys.stdin):
    try:
        answers.append(found(module, name))
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def stock() -> dict[Change, str]:
    """What stands in verl where each entry points."""
    asked = json.dumps([(change.module, change.name) for change in CHANGES])
    environment = {**os.environ, "VERL_USE_EXTERNAL_PLUGINS": "none", "OMP_NUM_THREADS": "1"}
    environment.pop("VERL_USE_EXTERNAL_MODULES", None)
    environment.pop("VERL_PLATFORM", None)
    done = subprocess.run(
        [sys.executable, "-c", STOCK],
        check=False,
        input=asked,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(CHANGES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize(
    "change", CHANGES, ids=lambda change: f"{change.module}.{change.name.split('(')[0]}-{change.by}"
)
def test_verl_has_what_the_entry_changes(change: Change, stock: dict[Change, str]) -> None:
    assert stock[change] == change.name, f"verl's {change} is now {stock[change]}"
    module, name = change.by.split(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_every_override_has_its_reason() -> None:
    """docs/verl.md lists them, and tests/docs says that it is current: a hook that verl renames is missing there."""
    assert not [f"{one.ours}.{one.method}" for one in overrides() if not one.why]


def called(function: object, owner: str) -> list[str]:
    """The methods of ``owner`` that a function names, in their order."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == owner]
    ordered = sorted(named, key=lambda node: (node.lineno, node.col_offset))
    methods = [node.attr for node in ordered if callable(getattr(PPOTrainer, node.attr, None))]
    return list(dict.fromkeys(methods))


def test_an_update_has_all_parts_of_verls_in_their_order() -> None:
    ours = [*called(StepTrainer._sampled, "self"), *called(StepTrainer.parts, "self")]
    updates = [*called(StepTrainer.learn_values, "self"), *called(StepTrainer.learn, "self")]
    assert [*ours, *updates] == called(PPOTrainer._step_once, "self")
