"""AEPO's rollouts: a probe decides how many samples branch; repeated branching is penalised."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import number
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.arpo import ByEntropy
from turngrid.rollouts.forms.tree import samplers_of
from turngrid.rollouts.spec import EpisodeSpec


@dataclass(kw_only=True)
class Aepo(ByEntropy):
    """AEPO: one episode, the probe, runs first.

    Of the n samples ``n sigma(beta (H_1 - mean of the probe's later H_t))``, rounded, start at the
    beginning. The others branch as in ARPO, with probability ``(alpha + gamma (H_t - H_1)) (1 -
    min(1, fatigue l))`` after l branches in a row on the path.
    """

    beta: float = number()
    fatigue: float = number()

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        return super().specs(base, 1, rng)

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        if len(played) == 1 and (whole := min(n, round(self.from_the_start(played[0], n)))) > 1:
            return [replace(base, sample=sample) for sample in range(1, whole)]
        return super().next(played, base, n, rng)

    def from_the_start(self, probe: Episode, n: int) -> float:
        later = [self._entropy(probe, turn) for turn in range(1, len(probe.turns))]
        first = self._entropy(probe, 0)
        risen = sum(later) / len(later) - first if later else 0.0
        return n / (1 + math.exp(self.beta * risen))

    def chance(self, episode: Episode, turns: int, played: Sequence[Episode] = ()) -> float:
        rested = 1 - min(1.0, self.fatigue * branches_in_a_row(episode, turns, played))
        return super().chance(episode, turns) * rested


def branches_in_a_row(episode: Episode, turns: int, played: Sequence[Episode]) -> int:
    """Count the consecutive turns right before index ``turns`` at which a sample left the path."""
    samplers = samplers_of(played)
    path = samplers.get(episode.sample, [])
    row = 0
    for turn in range(turns - 1, 0, -1):
        here = [other for other in played if other.shared_turns == turn]
        if not any(samplers[other.sample][turn - 1] == path[turn - 1] for other in here):
            break
        row += 1
    return row
