"""What a method's paper sets where we set something else: files of ``conf/`` name both, and ``scale=paper`` takes the paper's.

What ``scale=laptop`` and ``scale=first`` set by themselves, as numbers of prompts and samples, stands in ``conf/algo/`` as the paper has it.
"""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

PAPER = "paper"


def register() -> None:
    """The resolver ``${in_paper:OURS,THEIRS}``; with words after it, in the papers of these ``algo=`` alone."""
    OmegaConf.register_new_resolver("in_paper", _in_paper, replace=True)


def _in_paper(ours: Any, theirs: Any, *words: str, _root_: DictConfig) -> Any:
    meant = not words or _root_.algo.name in words
    return theirs if meant and _root_.scale.name == PAPER else ours
