"""Episodes of several plays (UFO, SCoRe) or of rows that begin with a summary (SUPO, MEM1)."""

from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import Card, Conflict, number, without
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.spec import Attempts as Plays
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.rollouts.window import Summaries

BY_STATE = {"gigpo", "hgpo", "salt", "graft"}


@dataclass(kw_only=True)
class Attempts(Linear):
    """The observation at an attempt's end is not shown, so that no word of success is."""

    attempts: int = number(2)
    feedback: str
    until_won: bool

    windows = False
    several_plays = True
    conflicts = (
        Conflict(
            ("credit", "algo.state"),
            lambda _, names, state: bool(BY_STATE & {*names}) and state != "history",
            "a state of one attempt is taken for that of another",
            "credit=[]",
        ),
    )
    card = Card(
        paper="2507.14295",
        source="code",
        result="mathematics, over several turns: +14",
        needs="room in `data.max_response_length` for all attempts; an environment that can be reset",
        ours="games of several turns (there an answer is an attempt)",
    )

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        plays = Plays(self.attempts, base.max_turns, self.feedback, self.until_won)
        return super().specs(replace(base, attempts=plays, max_turns=self.attempts * base.max_turns), n, rng)


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
    card = Card(
        paper="2510.06727",
        source="notes",
        result="CodeGym +3.2, BrowseComp-Plus +14.0",
        ours="wording, sizes; a summary is a separate turn",
    )


@dataclass(kw_only=True)
class Mem1(Summary):
    """MEM1: the policy sees the goal, its summary and the newest observation."""

    card = Card(paper="2506.15841", source="notes", ours="as of `summary`")
