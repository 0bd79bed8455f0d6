"""ARPO's rollouts: episodes branch where the policy is less certain than at its first turn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import Card, number
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.forms.tree import branched
from turngrid.rollouts.loop import EpisodeSpec

TOKENS = 20  # first tokens of an answer


@dataclass(kw_only=True)
class Arpo(Linear):
    """ARPO: a share ``start`` of the n samples begins at the game's start; the others branch off.

    After each turn, while samples are left, each running episode branches with probability
    ``clip(alpha + gamma (H_t - H_1), 0, 1)``, H_t the summed entropies of the answer's first tokens
    (with ``mean``, their mean). Samples left at the end begin at the game's start. Episodes run to
    their end before branches are drawn in the order of turns; they are independent, so this equals
    stepping them together.

    Raises:
        ValueError: ``start`` is outside (0, 1].
    """

    start: float
    alpha: float = number()
    gamma: float = number()
    mean: bool

    windows = False
    compares_turns = False
    branches = True
    entropies = True
    card = Card(paper="2507.19849", source="code", ours="entropy at the sampling temperature")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.start <= 1:
            raise ValueError(f"start={self.start} must be above 0 and at most 1")

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        return super().specs(base, max(1, round(self.start * n)), rng)

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        left = n - len(played)
        if not left:
            return []
        for turns in range(1 + last_branching(played), max(len(episode.turns) for episode in played)):
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


def last_branching(played: Sequence[Episode]) -> int:
    """Return after how many turns the latest branch began; later rounds branch after that."""
    return max(len(episode.turns) - len(episode.own_turns) for episode in played)
