"""Where the tokenizer of a run's episodes lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from envs.catalogue import cache_root
from records.models.locate import ASSET, PACKAGED, local_folder
from records.resume import RlFolder
from records.run_folder import composed

FILE = "tokenizer.json"


def tokenizer_of(run: Path, policy: str = "") -> Path | None:
    """A folder with ``tokenizer.json``, or None: every checkpoint has one, and so has the model that the run started from.

    ``run`` is a run folder or that of an evaluation without a run, where each ``policy`` may have another.
    """
    return next((folder for folder in _candidates(run, policy) if (folder / FILE).exists()), None)


def _candidates(run: Path, policy: str) -> Iterator[Path]:
    rl = RlFolder(run)
    if step := rl.saved_step():
        yield rl.model(step)
    yield run / "sft" / "model"
    for name in (*_models_of_policies(run, policy), str(composed(run).get("model", {}).get("path") or "")):
        if folder := _folder(name):
            yield folder


def _models_of_policies(run: Path, policy: str) -> list[str]:
    result = run / "result.json"
    try:
        found = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    except ValueError:
        return []
    return [entry.get("path", "") for entry in found.get("policies", []) if entry.get("name") == policy]


def _folder(model: str) -> Path | None:
    """Of a model by any of the names that ``model.path`` takes; nothing is downloaded."""
    if model.startswith(ASSET):
        return Path(str(files("assets"))) / model.removeprefix(ASSET)
    if model.startswith(PACKAGED):
        return cache_root() / "models" / model.removeprefix(PACKAGED)
    if not model or (folder := local_folder(model)):
        return folder if model else None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model, FILE)  # loaded on this machine before
    return Path(found).parent if isinstance(found, str) else None
