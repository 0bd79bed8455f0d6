"""A teacher where verl has its reference policy: another model, which verl cannot be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

TEACHER = "teacher"  # of the worker's config, which is verl's actor_rollout_ref
OF_ITS_OWN = (
    "local_path",
    "hf_config_path",
    "local_hf_config_path",
    "tokenizer_path",
    "local_tokenizer_path",
    "hf_config",
    "generation_config",
    "tokenizer",
    "processor",
    "architectures",
)


def with_teacher(usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """In place of verl's ``ActorRolloutRefWorker.init_model``."""

    @wraps(usual)
    def init_model(self: Any) -> Any:
        if path := self.config.get(TEACHER):
            worker = self.ref_worker_cls

            def taught(config: Any) -> Any:
                model = replace(config.model_config, path=path, **dict.fromkeys(OF_ITS_OWN))
                return worker(config=replace(config, model_config=model))

            self.ref_worker_cls = taught
        return usual(self)

    return init_model
