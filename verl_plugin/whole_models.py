"""Makes verl's engines load a model completely or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import verl.utils.model

from turngrid.records.models.loading import load_whole
from turngrid.verl_plugin.replaced import replaced


@dataclass(frozen=True)
class Whole:
    """Replaces a class of transformers."""

    kind: Any

    def from_pretrained(self, pretrained_model_name_or_path: str, **settings: Any) -> Any:
        return load_whole(self.kind, pretrained_model_name_or_path, **settings)


def whole(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuse a checkpoint that lacks weights; verl would initialise them at random.

    Until verl refuses it.
    """

    def build_module(engine: Any) -> Any:
        kind_of = verl.utils.model.get_hf_auto_model_class
        with replaced(verl.utils.model, "get_hf_auto_model_class", lambda hf_config: Whole(kind_of(hf_config))):
            return build(engine)

    return build_module
