"""The only door to ``verl_plugin/cpu/start/``, which buys seconds of a start on CPUs and nothing else: where that folder has
been deleted, verl starts its processes itself, one after another."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from verl_plugin.changes import Change

if TYPE_CHECKING:
    from omegaconf import DictConfig

FOLDER = "verl_plugin.cpu.start"


def part(name: str) -> ModuleType | None:
    """A module of the folder's."""
    spec = find_spec(FOLDER)
    there = spec is not None and spec.has_location  # an empty folder has none
    return importlib.import_module(f"{FOLDER}.{name}") if there else None


def changes() -> tuple[Change, ...]:
    """For processes of verl's platform for CPUs alone."""
    table = part("changes")
    return table.CHANGES if table else ()


def has_template(config: DictConfig) -> bool:
    """Are a run's processes copies of one? vLLM's engine has not been tried in a copy."""
    return config.trainer.device == "cpu" and config.actor_rollout_ref.rollout.name == "transformers"


def leave_template() -> None:
    """Import what all of the run's processes need, and leave a copy of this one for them; nothing has a thread yet. A second time it
    does nothing."""
    if template := part("template"):
        template.leave()


def begin(config: DictConfig) -> None:
    """Start what can be started before verl asks for it."""
    early = part("early_start")
    if early:
        early.start(config)
