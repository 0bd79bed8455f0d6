"""What other packages bring: entry points of the group ``turngrid``, which are looked up only when somebody asks for them.

``env.lamp = "lamps.environment:Lamp"`` makes ``lamp`` a name of the kind ``env``; ``conf = "lamps.conf"`` names a
package whose folder holds options' files as our own ``conf/`` does. Nothing here imports what it finds; a name that
stands for two things is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Container, Mapping
from copy import deepcopy
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.types import TaskError
from envs.utils.names import meant

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "turngrid"
FOLDER = "conf"  # the entry point that names a package's options
CONF = Path(__file__).resolve().parent.parent / "conf"
IN_WORDS = {"env": "environment", "algo": "algorithm"}  # where a kind is not called by its name


class UnknownName(TaskError):
    """A name that stands for nothing, or for two things. The message is one line and names the nearest that there is."""


def path_of(kind: str, name: str, ours: Mapping[str, str]) -> str:
    """``module:Name`` of a name: by a line of ours, by an entry point, or because it has that form.

    Raises:
        UnknownName: there is no such name.
    """
    if ":" in name:
        return name
    known = ours if name in ours else {**ours, **installed(kind, ours)}
    if name not in known:
        said = f"unknown {IN_WORDS.get(kind, kind)} {name!r}{meant(name, known)}"
        if name == "None":
            said = f"no {IN_WORDS.get(kind, kind)} is named; an option's file begins with its line '# @package ...'"
        raise UnknownName(f"{said} (choices: {', '.join(sorted(known))}, or module:Name)")
    return known[name]


def find(kind: str, name: str, ours: Mapping[str, str]) -> Any:
    """What a name stands for.

    Raises:
        UnknownName: there is no such name, module or attribute.
    """
    path = path_of(kind, name, ours)
    try:
        return load(path)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: ":Name" names no module
        raise UnknownName(f"{kind} {name}: {error}") from error


def load(path: str) -> Any:
    """What ``module:Name`` stands for; importing it may raise anything."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def installed(kind: str, ours: Container[str] = ()) -> dict[str, str]:
    """Names of other packages to ``module:Name``.

    Raises:
        UnknownName: one of them is offered twice, or is one of ``ours``.
    """
    found: dict[str, EntryPoint] = {}
    for point in _points():
        if point.name.startswith(f"{kind}."):
            name = point.name.removeprefix(f"{kind}.")
            _refuse_twice(point.name, point, name in ours, found.get(name))
            found[name] = point
    return {name: point.value for name, point in found.items()}


@cache
def options() -> dict[str, dict[str, Path]]:
    """Files of other packages' options by group and name.

    Raises:
        UnknownName: two packages have an option of that name, or we have it; a package has no such folder.
    """
    found: dict[str, dict[str, Path]] = {}
    owners: dict[str, EntryPoint] = {}
    for point, folder in _folders():
        for file in sorted(folder.glob("*/*.yaml")):
            group, said = file.parent.name, f"{file.parent.name}={file.stem}"
            _refuse_twice(said, point, (CONF / group / file.name).exists(), owners.get(said))
            owners[said] = point
            found.setdefault(group, {})[file.stem] = file
    return found


def shipped(group: str, name: str, **changes: Any) -> dict[str, Any]:
    """Return the values that an option's file gives to the option's own node, for use without Hydra.

    Args:
        group: a folder of ``conf/``.
        name: the option; without a file, the result is ``changes``.
        changes: values that replace those of the file.

    Returns:
        The values without ``name``. A value that refers to other keys is left out unless ``changes`` has it.
    """
    return deepcopy(_shipped(group, name)) | changes


@cache
def _shipped(group: str, name: str) -> dict[str, Any]:
    from omegaconf import OmegaConf

    ours = CONF / group / f"{name}.yaml"
    file = ours if ours.exists() else options().get(group, {}).get(name)
    content: Any = OmegaConf.to_container(OmegaConf.load(file)) if file else {}
    if file and "# @package _global_" in file.read_text(encoding="utf-8"):
        content = content.get("turn_reward" if group == "reward" else group, {})
    return {str(key): value for key, value in content.items() if key != "name" and "${" not in str(value)}


def conf_folders() -> list[Path]:
    """Where other packages' options lie. Raises as ``options`` does."""
    return [folder for _, folder in _folders()] if options() else []


@cache
def _points() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # reads every package's list: some ten milliseconds

    return tuple(entry_points(group=GROUP))


@cache
def _folders() -> tuple[tuple[EntryPoint, Path], ...]:
    return tuple((point, _folder(point)) for point in _points() if point.name == FOLDER)


def _folder(point: EntryPoint) -> Path:
    """Only the outermost package is looked for, since to look inside one imports it."""
    top, *inner = point.value.split(".")
    spec = find_spec(top)
    places = spec.submodule_search_locations if spec else None
    folder = next((path for place in places or () if (path := Path(place, *inner)).is_dir()), None)
    if folder is None:
        raise UnknownName(f"{_package(point)}: its entry point {FOLDER} = {point.value!r} names no package's folder")
    return folder


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def _refuse_twice(what: str, point: EntryPoint, ours: bool, other: EntryPoint | None) -> None:
    if ours:
        raise UnknownName(
            f"package {_package(point)} offers {what}, which is a name of turngrid's own: it must choose another"
        )
    if other is not None:
        raise UnknownName(
            f"packages {_package(other)} and {_package(point)} both offer {what}: install only one of them"
        )
