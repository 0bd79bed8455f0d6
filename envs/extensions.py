"""Names and options of other packages: entry points of the group ``turngrid``.

``env.lamp = "lamps.environment:Lamp"`` makes ``lamp`` a name of the kind ``env``. ``conf =
"lamps.conf"`` names a package with YAML files, in folders as in ``conf/``. Only ``find`` and
``load`` import what an entry point names. A name with two meanings is refused.
"""

import importlib
from collections.abc import Container, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import meant

GROUP = "turngrid"
FOLDER = "conf"  # the entry point of a package's YAML files
CONF = Path(__file__).resolve().parent.parent / "conf"
IN_WORDS = {"env": "environment", "algo": "algorithm"}  # kinds in messages


class UnknownName(TaskError):
    """A name with no meaning or two; the message is one line and names the nearest choice."""


def path_of(kind: str, name: str, ours: Mapping[str, str]) -> str:
    """Return ``module:Name`` for a name in ``ours`` or in the entry points.

    A name of the form ``module:Name`` is returned unchanged.

    Raises:
        UnknownName: there is no such name.
    """
    if ":" in name:
        return name
    known = ours if name in ours else {**ours, **installed(kind, ours)}
    if name not in known:
        word = IN_WORDS.get(kind, kind)
        problem = f"unknown {word} {name!r}{meant(name, known)}"
        if name == "None":
            problem = f"no {word} is named; an option's file begins with its line '# @package ...'"
        raise UnknownName(f"{problem} (choices: {', '.join(sorted(known))}, or module:Name)")
    return known[name]


def find(kind: str, name: str, ours: Mapping[str, str]) -> Any:
    """Import and return the object of a name.

    Raises:
        UnknownName: there is no such name, module or attribute.
    """
    path = path_of(kind, name, ours)
    try:
        return load(path)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: ":Name" names no module
        raise UnknownName(f"{kind} {name}: {error}") from error


def load(path: str) -> Any:
    """Import ``module:Name``, which may raise any exception."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def installed(kind: str, ours: Container[str] = ()) -> dict[str, str]:
    """Return name -> ``module:Name`` of other packages.

    Raises:
        UnknownName: a name is offered twice, or is in ``ours``.
    """
    points: dict[str, EntryPoint] = {}
    for point in _points():
        if point.name.startswith(f"{kind}."):
            name = point.name.removeprefix(f"{kind}.")
            _refuse_twice(point.name, point, name in ours, points.get(name))
            points[name] = point
    return {name: point.value for name, point in points.items()}


@cache
def options() -> dict[str, dict[str, Path]]:
    """Return YAML files of other packages by group and name.

    Raises:
        UnknownName: an option is offered twice or is in ``conf/``, or a package has no such folder.
    """
    by_group: dict[str, dict[str, Path]] = {}
    owners: dict[str, EntryPoint] = {}
    for point, folder in _folders():
        for file in sorted(folder.glob("*/*.yaml")):
            group, option = file.parent.name, f"{file.parent.name}={file.stem}"
            _refuse_twice(option, point, (CONF / group / file.name).exists(), owners.get(option))
            owners[option] = point
            by_group.setdefault(group, {})[file.stem] = file
    return by_group


@cache
def shipped(group: str, name: str) -> dict[str, Any]:
    """Return the values of an option's own node from its YAML file, without Hydra; {} without one.

    ``name`` and values that refer to other keys are left out. All callers get the same object.
    """
    from omegaconf import OmegaConf

    ours = CONF / group / f"{name}.yaml"
    file = ours if ours.exists() else options().get(group, {}).get(name)
    content: Any = OmegaConf.to_container(OmegaConf.load(file)) if file else {}
    if file and "# @package _global_" in file.read_text(encoding="utf-8"):
        content = content.get("turn_reward" if group == "reward" else group, {})
    return {str(key): value for key, value in content.items() if key != "name" and "${" not in str(value)}


def conf_folders() -> list[Path]:
    """Return the folders of other packages' options."""
    return [folder for _, folder in _folders()] if options() else []


@cache
def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))  # 10 ms: reads the lists of all packages


@cache
def _folders() -> tuple[tuple[EntryPoint, Path], ...]:
    return tuple((point, _folder(point)) for point in _points() if point.name == FOLDER)


def _folder(point: EntryPoint) -> Path:
    """Return a package's folder; only its outermost package is found without an import."""
    top, *inner = point.value.split(".")
    spec = find_spec(top)
    folders = spec.submodule_search_locations if spec else None
    folder = next((path for above in folders or () if (path := Path(above, *inner)).is_dir()), None)
    if folder is None:
        raise UnknownName(f"{_package(point)}: its entry point {FOLDER} = {point.value!r} names no package's folder")
    return folder


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def _refuse_twice(what: str, point: EntryPoint, ours: bool, other: EntryPoint | None) -> None:
    if ours or other:
        owner = _package(other) if other and not ours else "turngrid"
        raise UnknownName(f"packages {owner} and {_package(point)} both offer {what}: rename it, or install only one")
