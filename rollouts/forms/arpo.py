"""ARPO's rollouts: episodes branch where the policy is less certain than at its first turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import number
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.forms.tree import branched
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
