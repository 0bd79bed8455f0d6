"""Episodes that branch off from each other: a group of trees whose leaves are episodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import Card, number
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.spec import Branch

TOKENS = 20  # first tokens of an answer


@dataclass(kw_only=True)
class Tree(Linear):
    """Tree-GRPO's rollouts.

    A round draws ``nodes`` nodes of each tree uniformly, with replacement, from its root and its
    inner turns.
    """

    trees: int = number(1)
    nodes: int = number(1)
    rounds: int = number(1)

    windows = False
    compares_turns = False
    branches = True
    card = Card(paper="2509.21240", source="code", needs="`rollout.n` of at most trees x (1 + nodes x rounds)")

    @property
    def leaves(self) -> int:
        return self.trees * (1 + self.nodes * self.rounds)

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        return super().specs(base, self.trees, rng)

    def next(self, played: Sequence[Episode], base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        if len(played) >= self.leaves:
            return []
        roots = roots_of(played)
        specs: list[EpisodeSpec] = []
        for tree in range(self.trees):
            nodes = nodes_of([episode for episode in played if roots[episode.sample] == tree])
            for parent, turns in rng.choices(nodes, k=self.nodes):
                specs.append(branched(replace(base, sample=len(played) + len(specs)), parent, turns))
        return specs

    def group(self, played: Sequence[Episode], n: int, rng: Random) -> list[Episode]:
        drawn = set(rng.sample(range(len(played)), n))
        kept = [episode for number, episode in enumerate(played) if number in drawn]
        return kept + [replace(e, trained=False) for number, e in enumerate(played) if number not in drawn]

    def episodes(self, n: int) -> int:
        return self.leaves


def roots_of(played: Sequence[Episode]) -> dict[int, int]:
    """Map each sample to its tree's first one; parents must precede their children."""
    roots: dict[int, int] = {}
    for episode in played:
        roots[episode.sample] = episode.sample if episode.parent is None else roots[episode.parent]
    return roots


def samplers_of(played: Sequence[Episode]) -> dict[int, list[int]]:
    """Map each sample to the samples in which its turns were sampled."""
    samplers: dict[int, list[int]] = {}
    for episode in played:
        shared = samplers[episode.parent][: episode.shared_turns] if episode.parent is not None else []
        samplers[episode.sample] = [*shared, *[episode.sample] * len(episode.own_turns)]
    return samplers


def nodes_of(tree: Sequence[Episode]) -> list[tuple[Episode, int]]:
    """Return the nodes of a tree as (episode, number of turns): the root, then each inner turn."""
    inner = [(e, turns) for e in tree for turns in range(e.shared_turns + 1, len(e.turns))]
    return [(tree[0], 0), *inner]


def branched(spec: EpisodeSpec, parent: Episode, turns: int) -> EpisodeSpec:
    return replace(spec, branch=Branch(parent.sample, tuple(parent.turns[:turns]), parent.turns[turns].observation))


@dataclass(kw_only=True)
class Arpo(Linear):
    """ARPO's rollouts: H_t is the sum of the entropies of the answer's first tokens.

    Samples that did not branch off begin at the game's start. Episodes run to their end before
    branches are drawn in the order of turns; they are independent, so this equals stepping them
    together.
    """

    start: float = number(1e-9, 1)
    alpha: float = number()
    gamma: float = number()
    mean: bool

    windows = False
    compares_turns = False
    branches = True
    entropies = True
    card = Card(paper="2507.19849", source="code", ours="entropy at the sampling temperature")

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        return super().specs(base, max(1, round(self.start * n)), rng)

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
class Aepo(Arpo):
    """AEPO: one episode, the probe, runs first.

    Of the n samples ``n sigma(beta (H_1 - mean of its later H_t))``, rounded, start at the
    beginning. The others branch as in ARPO, with probability ``(alpha + gamma (H_t - H_1)) (1 -
    min(1, fatigue l))`` after l branches in a row on the path.
    """

    beta: float = number()
    fatigue: float = number()

    card = Card(paper="2510.14545", source="notes", ours="`beta` (0.5 in the code), `fatigue`")

    def specs(self, base: EpisodeSpec, n: int, rng: Random) -> list[EpisodeSpec]:
        return Linear.specs(self, base, 1, rng)

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
