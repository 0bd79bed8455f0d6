"""A teacher model that replaces verl's reference policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

TEACHER = "teacher"  # key of the worker's config, verl's actor_rollout_ref
DERIVED = (  # fields that verl derives from the path of the model
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
    """Load a teacher instead of the reference policy, which in verl is always a copy of the policy.

    Until verl's reference policy has a path of its own.
    """

    @wraps(usual)
    def init_model(self: Any) -> Any:
        if path := self.config.get(TEACHER):
            worker = self.ref_worker_cls

            def teacher(config: Any) -> Any:
                model = replace(config.model_config, path=path, **dict.fromkeys(DERIVED))
                return worker(config=replace(config, model_config=model))

            self.ref_worker_cls = teacher
        return usual(self)

    return init_model
