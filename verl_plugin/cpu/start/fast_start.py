"""Start-up time that verl 0.9.1 and transformers spend on models nobody asked for."""

from __future__ import annotations

import os
import sys
from typing import Any


def skip_vision_models(module: Any) -> None:
    """Let ``verl.utils.model`` find a text model's class without importing every family of vision models first.

    Its test ``type(config) in AutoModelForImageTextToText._model_mapping.keys()`` imports 77 families (1.6 s a process
    on one core); ``in`` the mapping itself gives the same answer and imports none.
    """
    original = module.get_hf_auto_model_class
    if getattr(original, "skips_vision_models", False):
        return

    def get_hf_auto_model_class(hf_config: Any) -> Any:
        architecture = (hf_config.architectures or [""])[0]
        vision = type(hf_config) in module.AutoModelForImageTextToText._model_mapping
        if "ForCausalLM" in architecture and not vision and not hasattr(hf_config, "auto_map"):
            return module.AutoModelForCausalLM
        return original(hf_config)

    module.get_hf_auto_model_class = get_hf_auto_model_class
    module.get_hf_auto_model_class.skips_vision_models = True


def leave_scipy(module: Any) -> None:
    """Let transformers' losses of vision models, which come with every model, do without SciPy's assignment solver."""
    module.is_scipy_available = lambda: False
    package = sys.modules.get("transformers.utils")
    if hasattr(package, "is_scipy_available"):
        package.is_scipy_available = module.is_scipy_available  # type: ignore[union-attr]


def read_models_once(module: Any) -> None:
    """transformers reads the sources of its 450 families of models, to know their names, twice: it names the folder in two ways."""
    original = module.create_import_structure_from_path
    module.create_import_structure_from_path = lambda path: original(str(path).removesuffix(f"{os.sep}__init__.py"))


def skip_to_names(module: Any) -> None:
    """And looks at each of their million lines for the last that begins with ``__all__``."""
    original = module.fetch__all__
    module.fetch__all__ = lambda content: original(content[content.rfind("\n__all__") + 1 :])
