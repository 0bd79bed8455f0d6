"""Writes down what verl's losses are given, in whatever process they run: one file a micro-batch,
in ``FOLDER``.

Reaches those processes as the ``sitecustomize`` of a folder on ``PYTHONPATH``, so that nothing of
the run is changed.
"""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from turngrid.verl_plugin import hooks

FOLDER = "UPDATE_PROBE_FOLDER"
ROW = ("prompts", "responses")
LOSSES = {"ppo_loss": (*ROW, "response_mask", "advantages"), "value_loss": (*ROW, "values", "returns")}


def _wrap(module: ModuleType) -> None:
    for name, fields in LOSSES.items():
        setattr(module, name, _noting(getattr(module, name), name, fields))


def _noting(loss: Callable[..., Any], name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    def noted(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> Any:
        import torch

        rows = {field: [row.clone() for row in data[field].unbind()] for field in fields}
        torch.save(rows, Path(os.environ[FOLDER]) / f"{name}-{uuid.uuid4().hex}.pt")
        return loss(config, model_output, data, dp_group)

    return noted


def install() -> None:
    usual = hooks.run

    def run(module: ModuleType) -> None:
        usual(module)
        if module.__name__ == "verl.workers.utils.losses":
            _wrap(module)

    hooks.run = run
