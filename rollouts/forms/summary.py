"""Rows that begin with the policy's own summary of what came before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rollouts.forms.linear import Linear
from rollouts.summaries import Summaries


@dataclass
class Summary(Summaries, Linear):
    """Each sample from the start, in several rows (SUPO, arXiv 2510.06727, by notes).

    A summary is a sampled turn of its row: learned from as the others are, without a reward, and none of ``env.max_turns``. All rows
    share the episode's credit. The settings are what ``rollouts.window.window_of`` reads, so validation, evaluation and SFT have the
    same rows.
    """

    windows: ClassVar[bool] = False


@dataclass
class Mem1(Summary):
    """A summary after every turn, so that the policy sees the goal, its summary and the newest observation (MEM1, arXiv 2506.15841, by
    notes)."""

    tokens: int | None = None
    turns: int | None = 1
    most: int | None = None
