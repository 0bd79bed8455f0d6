"""Episodes that branch off from each other: a group of trees whose leaves are episodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from turngrid.rewards.declared import number, without
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.linear import Linear
from turngrid.rollouts.spec import Branch, EpisodeSpec


@dataclass(kw_only=True)
class Tree(Linear):
    """Tree-GRPO's rollouts.

    A round draws ``nodes`` nodes of each tree uniformly, with replacement, from its root and its
    inner turns.
    """

    trees: int = number(1)
    nodes: int = number(1)
    rounds: int = number(1)

    conflicts = (without("schedules", "the budget pays for as many episodes in each step", "one number"),)
    windows = False
    compares_turns = False
    branches = True

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
