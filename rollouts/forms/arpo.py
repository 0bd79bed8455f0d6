"""Episodes branch where the policy is less certain than at its first turn (ARPO, AEPO)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import number
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.forms.tree import branched, samplers_of
from turngrid.rollouts.spec import EpisodeSpec

TOKENS = 20  # first tokens of an answer


@dataclass(kw_only=True)
class ByEntropy(Linear):
    """Base: episodes branch by H_t, the sum or the ``mean`` of the first tokens' entropies.

    Samples that did not branch off begin at the game's start. Episodes run to their end before
    branches are drawn in the order of turns; they are independent, so this equals stepping them
    together.
    """

    alpha: float = number()
    gamma: float = number()
    mean: bool

    windows = False
    compares_turns = False
    branches = True
    entropies = True

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        left = n - len(played)
        if not left:
            return []
        latest = max(episode.shared_turns for episode in played)  # later rounds branch after that
        for turns in range(1 + latest, max(len(episode.turns) for episode in played)):
            live = [episode for episode in played if len(episode.turns) > turns]
            chosen = [episode for episode in live if rng.random() < self.chance(episode, turns, played)][:left]
            if chosen:
                numbered = enumerate(chosen, start=len(played))
                return [branched(replace(base, sample=sample), parent, turns) for sample, parent in numbered]
        return [replace(base, sample=len(played) + number) for number in range(left)]

    def chance(self, episode: Episode, turns: int, played: Sequence[Episode] = ()) -> float:
        """Return the probability that an episode branches after ``turns`` turns."""
        risen = self._entropy(episode, turns - 1) - self._entropy(episode, 0)
        return min(1.0, max(0.0, self.alpha + self.gamma * risen))

    def _entropy(self, episode: Episode, turn: int) -> float:
        first = episode.turns[turn].entropies[:TOKENS]
        return sum(first) / (len(first) or 1) if self.mean else sum(first)


@dataclass(kw_only=True)
class Arpo(ByEntropy):
    """ARPO's rollouts: the share ``start`` of the samples begins without a branch."""

    start: float = number(1e-9, 1)

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        return super().specs(base, max(1, round(self.start * n)), rng)


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
    """Return at how many consecutive turns before index ``turns`` the episode's path branched."""
    samplers = samplers_of(played)
    path = samplers.get(episode.sample, [])
    row = 0
    for turn in range(turns - 1, 0, -1):
        here = [other for other in played if other.shared_turns == turn]
        if not any(samplers[other.sample][turn - 1] == path[turn - 1] for other in here):
            break
        row += 1
    return row
