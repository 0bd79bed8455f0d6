"""What an ``algo=`` word sets of the methods that it chooses, and what its paper sets where we set something else: the methods' files in
``conf/`` name both, so that no option names a method that the command line may have left out.

What ``scale=laptop`` and ``scale=first`` set by themselves, as numbers of prompts and samples, stands in ``conf/algo/`` as the paper has it.
"""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig

PAPER = "paper"


def in_algo(ours: Any, theirs: Any, *words: str, _root_: DictConfig) -> Any:
    """``${in_algo:OURS,THEIRS,WORDS}``: theirs with these ``algo=`` words."""
    return theirs if _root_.algo.name in words else ours


def in_paper(ours: Any, theirs: Any, *words: str, _root_: DictConfig) -> Any:
    """``${in_paper:OURS,THEIRS}``: theirs at ``scale=paper``; with words after it, in the papers of these alone."""
    meant = not words or _root_.algo.name in words
    return theirs if meant and _root_.scale.name == PAPER else ours
