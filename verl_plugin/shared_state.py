"""State of methods that the trainer keeps and the agent-loop workers read: a file of the run.

The trainer writes it before a step's prompts are dispatched, so all workers sample a step with the
same state, and a resumed run with that of its checkpoint.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from turngrid.algorithms.chosen import Chosen, slots_of
from turngrid.envs.utils.files import write_whole
from turngrid.records.models.locate import LIBRARY, library_file, run_of
from turngrid.rollouts.retrieval import Frozen
from turngrid.tasks.run import Run


def write(path: Path, chosen: Chosen, step: int) -> None:
    """Write the state of the methods that are read where episodes are sampled, if there are any."""
    if methods := chosen.in_rollout(step):
        content = io.BytesIO()
        torch.save({name: method.state() for name, method in methods.items()}, content)
        write_whole(path, content.getvalue())


class Reader:
    """Gives a worker's own methods the trainer's state of a step."""

    def __init__(self, path: Path, chosen: Chosen) -> None:
        self._path, self._chosen, self._read_at = path, chosen, (-1, -1)

    def at(self, step: int) -> None:
        """Load the state of ``step``, unless it is loaded already."""
        if not (methods := self._chosen.in_rollout(step)):
            return
        written = self._path.stat()
        if self._read_at != (now := (step, written.st_mtime_ns)):
            load(methods, torch.load(self._path, weights_only=True))
            self._read_at = now


def saved_library(model: str) -> dict[str, Any]:
    """Return a model's library: its ``settings``, its ``state``, and the ``step`` that left it."""
    file = library_file(model)
    assert file is not None
    content = torch.load(file, weights_only=True)
    if file.name == LIBRARY:
        return content
    settings = slots_of(Run.read(run_of(model)).config, ("library",))
    state = {f"library/{name}": content[f"library/{name}"] for name in settings["library"]}
    return {"settings": settings, "state": state, "step": int(file.parent.name.rpartition("_")[2])}


def frozen_library(model: str) -> Frozen:
    saved = saved_library(model)
    load(methods := Chosen(saved["settings"]).in_rollout(saved["step"]), saved["state"])
    return Frozen(next(iter(methods.values())), saved["step"] + 1)


def load(methods: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    for name, method in methods.items():
        method.load(state[name])
