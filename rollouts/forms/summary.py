"""Rows that begin with the policy's summary of the turns before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rewards.declared import Conflict
from rollouts.forms.linear import Linear
from rollouts.summaries import Summaries


@dataclass
class Summary(Summaries, Linear):
    """SUPO (arXiv 2510.06727, from notes): each sample starts at the beginning, in several rows.

    A summary is a sampled turn: it is learned from, has no reward, and does not count towards
    ``env.max_turns``. All rows share the episode's credit. ``rollouts.window.window_of`` reads the
    settings, so validation, evaluation and SFT have the same rows.
    """

    windows: ClassVar[bool] = False
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("schedules",),
            lambda _, names: bool(names),
            "evaluation, which has no steps, has summaries too",
            "one number",
        ),
        Conflict(
            ("row tokens",),
            lambda form, room: (form.tokens or 0) + form.length > room,
            "rows of {method.tokens} tokens and a summary of {method.length} have no room",
            "a lower rollout_form.summary.tokens",
        ),
    )


@dataclass
class Mem1(Summary):
    """MEM1 (arXiv 2506.15841, from notes): a summary after every turn.

    The policy sees the goal, its summary and the newest observation.
    """

    tokens: int | None = None
    turns: int | None = 1
    most: int | None = None
