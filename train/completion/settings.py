"""Groups, options and keys for the shell: groups are read off their folders; keys, which take a composition, are kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envs.cache import cache_root
from envs.extensions import UnknownName, conf_folders
from envs.whole import write_whole
from train.completion.shells import ROOT

Keys = dict[str, list[str]]  # a key's full name -> values to offer
SOURCES = ("conf", "recipes", "train", "envs", "rewards")  # whose files decide which keys there are
BOOL = {True: ["true", "false"], False: ["false", "true"]}


def groups(config_dir: str | None = None) -> dict[str, list[str]]:
    """Our groups, with those of a folder of one's own, and their options."""
    places = [ROOT / "conf", *_elsewhere(config_dir)]
    folders = [folder for place in places if place.is_dir() for folder in place.iterdir() if folder.is_dir()]
    found: dict[str, set[str]] = {"recipe": {file.stem for file in (ROOT / "recipes").glob("*.yaml")}}
    for folder in folders:
        if options := {file.stem for file in folder.glob("*.yaml")}:
            found.setdefault(folder.name, set()).update(options)
    return {name: sorted(options) for name, options in found.items()}


def _elsewhere(config_dir: str | None) -> list[Path]:
    own = [Path(config_dir).expanduser()] if config_dir else []
    with contextlib.suppress(UnknownName):  # a run says what is wrong with them
        return [*own, *conf_folders()]
    return own


def keys(choices: Sequence[str], config_dir: str | None = None) -> Keys:
    """The keys of the config with these options chosen; composed at the first time, a second or so, then kept.

    Where the options do not compose, those of the default config.
    """
    stamp = hashlib.sha256(f"{ROOT} {config_dir} {_newest(config_dir)}".encode()).hexdigest()[:12]
    file = cache_root() / "completion" / f"{stamp}-{hashlib.sha256(' '.join(choices).encode()).hexdigest()[:12]}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(file.read_text(encoding="utf-8"))
    found = _composed(choices, config_dir)
    with contextlib.suppress(OSError):  # no place to keep it
        _keep(found, file)
    return found


def _newest(config_dir: str | None) -> float:
    places = [*(ROOT / name for name in SOURCES), *_elsewhere(config_dir)]
    files = (file for place in places for kind in ("*.yaml", "*.py") for file in place.rglob(kind))
    return max((file.stat().st_mtime for file in files), default=0.0)


def _keep(found: Keys, file: Path) -> None:
    for other in file.parent.glob("*.json"):
        if not other.name.startswith(file.name.split("-")[0]):
            other.unlink(missing_ok=True)
    write_whole(file, json.dumps(found))


def _composed(choices: Sequence[str], config_dir: str | None) -> Keys:
    from omegaconf import OmegaConf

    from config.compose import compose
    from config.errors import ConfigError

    try:
        config = compose(choices, config_dir)
    except ConfigError:
        config = compose([])
    return dict(_leaves(OmegaConf.to_container(config, resolve=True)))


def _leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    for name, value in node.items():
        if str(name).startswith("_"):  # Hydra's own
            continue
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _offered(value)


def _offered(value: Any) -> list[str]:
    """The value that a key has now, where it can be typed as it is."""
    if isinstance(value, bool):
        return BOOL[value]
    text = "null" if value is None else str(value)
    plain = text and not isinstance(value, list | dict) and not set(text) & set(" \t\n'\"$\\{}[](),=:&;|<>*?!#~`")
    return [text] if plain else []
