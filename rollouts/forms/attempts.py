"""Episodes of several attempts at one game, in one context (UFO, SCoRe)."""

from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import Conflict, number
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.spec import Attempts as Plays
from turngrid.rollouts.spec import EpisodeSpec

BY_STATE = {"gigpo", "hgpo", "salt", "graft"}


@dataclass(kw_only=True)
class Attempts(Linear):
    """Repeat a game within one episode.

    An attempt's final observation is hidden, as it may say that the game was won.
    """

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

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        plays = Plays(self.attempts, base.max_turns, self.feedback, self.until_won)
        return super().specs(replace(base, attempts=plays, max_turns=self.attempts * base.max_turns), n, rng)
