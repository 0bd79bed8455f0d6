"""Makes verl's engines load a model completely or not at all, and a teacher as the reference."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import verl.utils.model
from omegaconf import OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from turngrid.records.models.locate import load_whole
from turngrid.verl_plugin.changes import replaced

TEACHER = "teacher"  # key of the worker's config, verl's actor_rollout_ref


@dataclass(frozen=True)
class Whole:
    """Loads like ``cls``, a class of transformers, but never with weights missing."""

    cls: Any

    def from_pretrained(self, pretrained_model_name_or_path: str, **settings: Any) -> Any:
        return load_whole(self.cls, pretrained_model_name_or_path, **settings)


def whole(build: Callable[[Any], Any], engine: Any) -> Any:
    """Refuse a checkpoint that lacks weights; verl would initialise them at random.

    Until verl refuses it.
    """
    class_of = verl.utils.model.get_hf_auto_model_class
    with replaced(verl.utils.model, "get_hf_auto_model_class", lambda hf_config: Whole(class_of(hf_config))):
        return build(engine)


def with_teacher(usual: Callable[[Any], Any], worker: Any) -> Any:
    """Load a teacher instead of the reference policy, which in verl is always a copy of the policy.

    Until verl's reference policy has a path of its own.
    """
    if path := worker.config.get(TEACHER):
        reference = worker.ref_worker_cls

        def teacher(config: Any) -> Any:
            own = {"path": path, "hf_config_path": None, "tokenizer_path": None}
            model: Any = omega_conf_to_dataclass(OmegaConf.merge(worker.config.model, own))
            model.mtp = config.model_config.mtp
            return reference(config=replace(config, model_config=model))

        worker.ref_worker_cls = teacher
    return usual(worker)
