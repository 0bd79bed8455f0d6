"""What is changed in verl only to start sooner, on CPUs; ``verl_plugin.changes`` has the rest.

The first two save nothing where a worker is a copy of the template, which has verl: they are for vLLM's runs, which have none,
and for workers that cannot be copies.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from verl_plugin.changes import Change

_HERE = "verl_plugin.cpu.start"

CHANGES = (
    Change(
        "verl.single_controller.ray.base",
        "get_master_addr_port(master_port_range)",
        f"{_HERE}.changes:light_meeting_point",
        "to run verl's, a Ray worker that is no copy imports all of verl, five core-seconds for which the trainer waits",
    ),
    Change(
        "verl.workers.rollout.router",
        "GlobalRequestLoadBalancer",
        f"{_HERE}.changes:balancer_by_value",
        "sent as a reference, a process that is no copy imports all of verl for a plain class: five core-seconds and 300 MB",
    ),
    Change(
        "verl.utils.model",
        "get_hf_auto_model_class(hf_config)",
        f"{_HERE}.fast_start:skip_vision_models",
        "verl imports 77 families of vision models to learn that a text model is none: 1.6 s a process",
    ),
    Change(
        "transformers.utils.import_utils",
        "is_scipy_available()",
        f"{_HERE}.fast_start:leave_scipy",
        "with it every process loads 320 modules for the losses of vision models: 20 MiB and 0.2 s",
    ),
    Change(
        "transformers.utils.import_utils",
        "create_import_structure_from_path(module_path)",
        f"{_HERE}.fast_start:read_models_once",
        "every process reads 40 MB of sources for the names of models, twice: 0.2 s",
    ),
    Change(
        "transformers.utils.import_utils",
        "fetch__all__(file_content)",
        f"{_HERE}.fast_start:skip_to_names",
        "and looks for them line by line: 0.15 s",
    ),
)


def light_meeting_point(module: ModuleType) -> None:
    remote = importlib.import_module("ray").remote
    module.get_master_addr_port = remote(importlib.import_module("verl_plugin.cpu.start.free_port").address_and_port)  # type: ignore[attr-defined]


def balancer_by_value(module: ModuleType) -> None:
    importlib.import_module("ray").cloudpickle.register_pickle_by_value(module)
