"""Models are loaded whole or not at all.

transformers draws random numbers for weights that a checkpoint lacks and passes over those that it does not know; it warns, and
what plays then is another model than the one that was named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from records.models.locate import ModelError

SHOWN = 3  # names of weights that a message lists


def load_whole(kind: Any, path: str, head: tuple[str, ...] = (), **settings: Any) -> Any:
    """``kind.from_pretrained(path, **settings)``.

    Args:
        kind: a class of transformers, as ``AutoModelForCausalLM``.
        head: beginnings of the names of weights that may be missing, or be there and of no use: of a new head.

    Raises:
        ModelError: the checkpoint lacks weights of the model, or has others; the message names them.
    """
    model, told = kind.from_pretrained(path, output_loading_info=True, **settings)
    if problem := _misfit(told, head):
        raise ModelError(f"model.path={path} {problem}: no {type(model).__name__} can be made of it")
    return model


def _misfit(told: Mapping[str, Iterable[str]], head: tuple[str, ...]) -> str:
    words = []
    for verb, what in (("lacks", "missing_keys"), ("has unknown", "unexpected_keys")):
        if names := sorted(name for name in told[what] if not name.startswith(head)):
            more = f" and {len(names) - SHOWN} more weights" if len(names) > SHOWN else ""
            words.append(f"{verb} {', '.join(names[:SHOWN])}{more}")
    return " and ".join(words)
