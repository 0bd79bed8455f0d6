"""A config as plain dicts and lists: what ``OmegaConf.to_container`` gives, in a fraction of its time.

A config has a thousand values, of which eighty are interpolations, and a grid asks for each of its runs several times.
"""

from __future__ import annotations

import re
from typing import Any

from omegaconf import Container, DictConfig, OmegaConf

Plain = dict[str, Any]
MISSING = "???"
STEPS = 9  # from a name to a name to a value; a circle has no end
ASK = object()  # a value that only OmegaConf could tell
NAMES = re.compile(
    r"\$\{(oc\.select:)?(?P<key>[a-z_]\w*(\.[a-z_]\w*)*)(?(1)(,[^${}]*)?)\}"
)  # ${a.b}, ${oc.select:a.b,default}
_last: tuple[Plain, DictConfig] | None = None  # what was resolved last, as it was given and as a config


def plain(node: Container) -> Any:
    """``OmegaConf.to_container(node)``: interpolations stay as they are written."""
    content = node.__dict__["_content"]
    if isinstance(content, dict):
        return {key: _value(child) for key, child in content.items()}
    return [_value(child) for child in content] if isinstance(content, list) else content


def _value(node: Any) -> Any:
    return plain(node) if isinstance(node, Container) else node._value()


def resolved(whole: Plain) -> Plain:
    """``OmegaConf.to_container(OmegaConf.create(whole), resolve=True)``; the config of the last call is changed into that of this
    one, since making it takes longer than all else.

    Raises:
        OmegaConfBaseException: an interpolation to nowhere.
    """
    global _last
    if _last is None or [*_last[0]] != [*whole]:
        made = OmegaConf.create(whole)
    else:
        made = _last[1]
        _last, was = None, _last[0]  # until it is whole again
        _follow(made, was, whole)
    _last = whole, made
    return _Resolver(whole).of_node(whole, made)


def _follow(made: DictConfig, was: Plain, now: Plain) -> None:
    """Of ``made``, which has the keys and values of ``was``, one with those of ``now``; the keys are the same."""
    for key, value in now.items():
        before = was[key]
        if isinstance(value, dict) and isinstance(before, dict) and [*value] == [*before]:
            _follow(made._get_node(key), before, value)
        elif repr(value) != repr(before):  # 1 is not True
            made[key] = value


class _Resolver:
    """Most interpolations only name another value: it is looked up here, and OmegaConf is asked for what is more."""

    def __init__(self, whole: Plain) -> None:
        self._whole = whole

    def of_node(self, node: Plain, made: Any) -> Plain:
        return {key: self._of_value(value, key, made) for key, value in node.items()}

    def _of_value(self, value: Any, key: str, made: DictConfig) -> Any:
        if isinstance(value, dict):
            return self.of_node(value, made._get_node(key))
        if not isinstance(value, str | list) or not _interpolates(value):
            return value
        if isinstance(value, str) and (named := self._named(value)) is not ASK:
            return named
        found = made[key]
        return OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found

    def _named(self, text: str) -> Any:
        """The value that it names, if that is there and is one of its own."""
        value: Any = text
        for _ in range(STEPS):
            found = NAMES.fullmatch(value) if isinstance(value, str) else None
            if found is None:
                break
            value = self._whole
            for part in found["key"].split("."):
                value = value.get(part, ASK) if isinstance(value, dict) else ASK
        more = isinstance(value, str) and (_interpolates(value) or value == MISSING)
        return ASK if more or isinstance(value, dict | list) else value


def _interpolates(value: Any) -> bool:
    return "${" in str(value)
