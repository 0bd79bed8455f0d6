"""Arguments of ``ray.init``, the same wherever a process of a run starts Ray."""

import shlex
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf


def ray_settings(config: DictConfig, executable: str, verls: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments of ``ray.init``: the non-null values of verl's ``ray_kwargs.ray_init``.

    Its runtime environment adds to ``verls``. The interpreter's path is quoted if needed, since Ray
    inserts it into a shell command.
    """
    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    quoted = shlex.quote(executable)
    own = {"py_executable": quoted} if quoted != executable else {}
    environment = OmegaConf.merge(verls or {}, settings.get("runtime_env") or {}, own)
    settings["runtime_env"] = OmegaConf.to_container(environment) or None
    return {key: value for key, value in settings.items() if value is not None}
