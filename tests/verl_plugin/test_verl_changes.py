"""The table of what is changed in verl, against the verl that is installed: a new version that breaks an entry is told which."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys

import pytest

import verl_plugin
from verl_plugin.changes import CHANGES, OVERRIDDEN, Change

# Without the plugin: verl as it is.
STOCK = """
import importlib, inspect, json, sys

def unwrapped(thing):
    if hasattr(thing, "__ray_metadata__"):
        return thing.__ray_metadata__.modified_class
    return getattr(thing, "_function", thing)

def found(module, name):
    thing = importlib.import_module(module)
    for part in name.split("(")[0].split("."):
        thing = unwrapped(inspect.getattr_static(unwrapped(thing), part, None) or getattr(thing, part))
    if "(" not in name:
        return name
    names = [p for p in inspect.signature(getattr(thing, "__func__", thing)).parameters if not p.startswith("_ray")]
    return f"{name.split('(')[0]}({', '.join(names)})"

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
    assert same(change.name, stock[change]), f"verl's {change} is now {stock[change]}"
    module, name = change.by.split(":")
    assert callable(getattr(importlib.import_module(module), name))


def same(wanted: str, found: str) -> bool:
    name, some, parameters = wanted.partition("(..., ")
    return wanted == found or bool(some and found.startswith(f"{name}(") and f", {parameters[:-1]}" in found)


def our_classes() -> list[type]:
    """Every class of the plugin that inherits from verl's, and what is mixed into the trainer for some configs."""
    names = [module.name for module in pkgutil.walk_packages(verl_plugin.__path__, "verl_plugin.")]
    found = [
        thing for name in names for thing in vars(importlib.import_module(name)).values() if isinstance(thing, type)
    ]
    trainer = importlib.import_module("verl_plugin.training.task_loader").CurriculumTrainer
    windows = importlib.import_module("verl_plugin.training.window_rows").WindowRows
    return [*dict.fromkeys(found), type("WindowTrainer", (windows, trainer), {"__module__": __name__})]


def overrides(cls: type) -> set[tuple[str, str]]:
    """(our class, method) for each method of verl's that one of ours in ``cls`` takes the place of; not what verl leaves to
    others, nor what Python defines."""
    found = set()
    for place, ours in enumerate(cls.__mro__):
        if ours.__module__.split(".")[0] != "verl_plugin":
            continue
        for name, value in vars(ours).items():
            verls = [
                base for base in cls.__mro__[place:] if base.__module__.split(".")[0] == "verl" and name in vars(base)
            ]
            if not verls or not inspect.isroutine(value) or name.startswith("__"):
                continue
            if not getattr(vars(verls[0])[name], "__isabstractmethod__", False):
                found.add((f"{ours.__module__}:{ours.__qualname__}", name))
    return found


def test_every_override_stands_in_the_table() -> None:
    listed = {(change.by, change.name.split("(")[0].split(".")[1]) for change in OVERRIDDEN}
    assert {found for cls in our_classes() for found in overrides(cls)} == listed
