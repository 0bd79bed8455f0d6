"""Rows that begin with the policy's summary of the turns before them (SUPO)."""

from dataclasses import dataclass

from turngrid.rewards.declared import Conflict, without
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.window import Summaries


@dataclass(kw_only=True)
class Summary(Summaries, Linear):
    """SUPO: each sample starts at the beginning, in several rows.

    A summary is a sampled turn: it is learned from, has no reward, and does not count towards
    ``env.max_turns``. All rows share the episode's credit. ``turngrid.rollouts.window.window_of``
    reads the settings, so validation, evaluation and SFT have the same rows.
    """

    windows = False
    conflicts = (
        without("schedules", "evaluation, which has no steps, has summaries too", "one number"),
        Conflict(
            ("row tokens",),
            lambda form, room: (form.tokens or 0) + form.length > room,
            "rows of {method.tokens} tokens and a summary of {method.length} have no room",
            "a lower rollout_form.summary.tokens",
        ),
    )
