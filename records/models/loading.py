"""Loads a model completely or not at all.

transformers initialises missing weights at random and ignores unknown weights. It only warns, and
the run would continue with another model than the named one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from turngrid.records.models.locate import ModelError

SHOWN = 3  # maximum number of weights that a message lists


def load_whole(kind: Any, path: str, head: tuple[str, ...] = (), **settings: Any) -> Any:
    """Return ``kind.from_pretrained(path, **settings)``.

    Args:
        kind: a class of transformers, as ``AutoModelForCausalLM``.
        head: prefixes of weight names that may be missing or unknown, as those of a new head.

    Raises:
        ModelError: the checkpoint lacks weights or has unknown ones; the message names them.
    """
    model, report = kind.from_pretrained(path, output_loading_info=True, **settings)
    if problem := _misfit(report, head):
        raise ModelError(f"model.path={path} {problem}: it is no whole {type(model).__name__}")
    return model


def _misfit(report: Mapping[str, Iterable[str]], head: tuple[str, ...]) -> str:
    words = []
    for verb, what in (("lacks", "missing_keys"), ("has unknown", "unexpected_keys")):
        if names := sorted(name for name in report[what] if not name.startswith(head)):
            more = f" and {len(names) - SHOWN} more weights" if len(names) > SHOWN else ""
            words.append(f"{verb} {', '.join(names[:SHOWN])}{more}")
    return " and ".join(words)
