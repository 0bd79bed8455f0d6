"""What only makes composing quicker: Hydra and OmegaConf do each of these again for every config."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import hydra
import omegaconf
import yaml
from hydra._internal import defaults_list
from hydra._internal.config_repository import ConfigRepository
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import InputDefault
from hydra.core.object_type import ObjectType
from omegaconf import DictConfig, ListConfig, Node, ValueNode
from omegaconf._utils import get_yaml_loader

PARSED = 4096  # interpolations
PLAIN = frozenset({int, float, bool, type(None)})
REQUIRED = omegaconf._utils._DEFAULT_MARKER_  # no default
_load, _loaded = ConfigRepository.load_config, {}
_get, _choices = DictConfig._get_impl, defaults_list._create_interpolation_map


@cache
def install() -> None:
    """Interpolations are parsed once, files are read by libyaml and once, the one store of all schemas is not copied, and what
    is written in a config is read without asking what else it could be."""
    omegaconf.base.parse = lru_cache(PARSED)(omegaconf.base.parse)
    ConfigStore.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    ConfigRepository.load_config = _load_once
    omegaconf._utils.get_yaml_loader = _yaml_loader
    omegaconf.base.Box._re_parent = _re_parent  # type: ignore[method-assign]
    DictConfig._get_impl = _get_plain  # type: ignore[method-assign]
    hydra.version._get_version = cache(hydra.version._get_version)
    defaults_list._create_interpolation_map = _choices_where_asked


@contextmanager
def rare_collections() -> Iterator[None]:
    """A config is ten thousand objects, for which Python would look for garbage fifteen times."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@cache
def _yaml_loader() -> type:
    """OmegaConf's own, over libyaml where PyYAML was built with it."""
    usual = yaml.SafeLoader
    try:
        yaml.SafeLoader = getattr(yaml, "CSafeLoader", usual)
        return get_yaml_loader()
    finally:
        yaml.SafeLoader = usual


def _load_once(repository: ConfigRepository, config_path: str) -> object:
    """As the first time, unless a file was written or a node was stored since."""
    source = repository._find_object_source(config_path, ObjectType.CONFIG)
    if source is None:
        return None
    name, scheme = source._normalize_file_name(config_path), source.scheme()
    node = ConfigStore.instance()._load(name) if scheme == "structured" else None
    written = Path(source.path, name).stat().st_mtime_ns if scheme == "file" else 0
    key = (scheme, source.path, source.provider, name, written, id(node))
    if key not in _loaded:
        _loaded[key] = (node, pickle.dumps(_load(repository, config_path)))  # the node, so that its id stays its own
    return pickle.loads(_loaded[key][1])


def _re_parent(node: Node) -> None:
    """OmegaConf's own, which walks the whole tree after each of Hydra's thirty merges."""
    content = node.__dict__["_content"]
    children = content.values() if isinstance(content, dict) else content if isinstance(content, list) else [content]
    for child in children:
        inside = getattr(child, "__dict__", None)
        if inside is not None:
            inside["_parent"], inside["_flags_cache"] = node, None
            if "_content" in inside:
                _re_parent(child)


def _get_plain(config: DictConfig, key: Any, default_value: object, validate_key: bool = True) -> object:
    """As OmegaConf's own, which looks for interpolations, missing values and flags at every key that is read."""
    content = config.__dict__["_content"]
    if type(content) is not dict or type(key) is not str:
        return _get(config, key, default_value, validate_key)
    node = content.get(key)
    if isinstance(node, ValueNode):
        value = node.__dict__["_val"]
        if type(value) in PLAIN or (type(value) is str and "${" not in value and value != "???"):
            return value
    elif type(node) in (DictConfig, ListConfig) and type(node.__dict__["_content"]) in (dict, list):
        return node
    elif node is None and default_value is not REQUIRED and config._metadata.key_type in (Any, str):
        return default_value
    return _get(config, key, default_value, validate_key)


def _choices_where_asked(overrides: Any, defaults: list[InputDefault], self_added: bool) -> DictConfig:
    """What a defaults list may refer to, which Hydra works out for those without a reference too."""
    refers = any("${" in str(vars(default)) for default in defaults)
    return _choices(overrides, defaults, self_added) if refers else DictConfig({})
