"""Credit by scores of trees (Tree-GRPO, SEEA-R1, REFUEL), attempts (SCoRe) and groups (RAPO)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.credit.gigpo import LOSES_KL
from turngrid.algorithms.filters.groups import equal_scores
from turngrid.algorithms.pools import centred, compared, means, pools, sums
from turngrid.algorithms.registry import base_of
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import FIRST, GROUPS, WHOLE_STEP, Conflict, Method, excludes, number, only, without, word

_BRANCHES = Conflict(("branches",), lambda _, are: not are, "no episode branches off", "rollout_form=tree")


@dataclass(kw_only=True)
class Tree(Method):
    """``A_t += (R - mean) / (std + 1e-6)`` over the scores R of a tree's leaves.

    The term is 0 for a leaf alone, or if all scores of the tree are equal.
    """

    std: bool
    shared: str = word("each", "once")

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (_BRANCHES,)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.tree is None or not len(turns.tree):
            return advantages
        inside = compared(turns.score, pools(turns.group, turns.tree), self.std, size=turns.score_size)
        result = advantages + inside.unsqueeze(1)
        return result / leaves(turns) if self.shared == "once" else result


def leaves(turns: Turns) -> Tensor:
    """Count the episodes that share each turn; (E, K) float64, 1 where there is no turn."""
    assert turns.node is not None
    episode, turn = turns.flat()
    keys = torch.stack([turns.group[episode], turns.node[episode, turn]])
    _, where, count = torch.unique(keys, dim=1, return_inverse=True, return_counts=True)
    return torch.ones(turns.mask.shape, dtype=torch.float64).masked_scatter(turns.mask, count[where].double())


@dataclass(kw_only=True)
class TreeQ(Method):
    """``A_t = (Q - mean) / (std + 1e-6)`` over a turn and its siblings; it replaces the advantage.

    Q is the mean score of the episodes that share the turn. Siblings are the turns that follow one
    turn, or that begin at the game's start in all trees of a prompt, each counted once. A turn
    without siblings has A = 0, or ``alone: episode`` what ``Tree`` gives its episode.
    """

    std: bool
    alone: str = word("zero", "episode")
    shared: str = word("each", "once")

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        _BRANCHES,
        excludes("credit", "tree", reason="both compare the same episodes", use="credit=[tree_q]"),
        Conflict(("before",), lambda _, names: bool({*names} - {"tree"}), "it replaces what they return"),
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.node is None or not len(turns.node):
            return advantages
        episode, turn = turns.flat()
        group, before = turns.group[episode], torch.nn.functional.pad(turns.node, (1, -1), value=-1)
        node = pools(group, turns.node[episode, turn])
        parent = torch.zeros_like(node.unique()).scatter(0, node, pools(group, before[episode, turn]))
        size = means(turns.score_size[episode], node)
        values = compared(means(turns.score[episode], node), parent, self.std, size=size)
        alone = torch.bincount(parent)[parent] == 1
        assert turns.tree is not None
        inside = compared(turns.score, pools(turns.group, turns.tree), self.std, size=turns.score_size)
        result = (advantages + inside.unsqueeze(1)) * (self.alone == "episode")
        result[episode, turn] = result[episode, turn].where(alone[node], values[node])
        return result / leaves(turns) if self.shared == "once" else result


@dataclass(kw_only=True)
class Pair(Method):
    """``A = 2 eta (R_1 - R_2)`` on the turn from which two episodes differ, else 0 (REFUEL).

    The two are a tree. It replaces the advantage. It is the gradient of ``-(d_1 - d_2 - eta (R_1 -
    R_2))^2`` at d = 0, as at a batch's first update; d is the change of the turn's summed log-prob.
    """

    eta: float = number(0)

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        _BRANCHES,
        Conflict(
            ("rollout_form.tree.nodes", "rollout_form.tree.rounds"),
            lambda _, nodes, rounds: (nodes, rounds) != (1, 1),
            "it compares two episodes",
            "rollout_form.tree.nodes=1 rollout_form.tree.rounds=1",
        ),
        FIRST,
        only("actor_rollout_ref.actor.ppo_epochs", 1, reason="a later update would need both episodes in one pass"),
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.node is None or turns.tree is None or not len(turns.tree):
            return advantages
        tree = pools(turns.group, turns.tree)
        apart = 2 * centred(turns.score, tree, turns.score_size)  # of a pair: score less the other's
        paid = torch.where(torch.bincount(tree)[tree] == 2, 2 * self.eta * apart, 0.0)
        first = ((leaves(turns) > 1) & turns.mask).sum(dim=1)
        result = torch.zeros_like(advantages)
        return result.scatter(1, first.unsqueeze(1), paid.unsqueeze(1).to(result.dtype))


@dataclass(kw_only=True)
class Attempts(Method):
    """``A_t = (r - mean) / (std + 1e-6)``, r the sum of the rewards of the attempt of turn t.

    The mean is over the attempts of this number in the group. It replaces the advantage.
    """

    std: bool

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        Conflict(("several plays",), lambda _, are: not are, "an episode is one attempt", "rollout_form=attempts"),
        FIRST,
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.attempt is None or not len(turns.attempt):
            return advantages
        episode, turn = turns.flat()
        number, rewards = turns.attempt[episode, turn], turns.reward[episode, turn]
        own = pools(episode, number)
        same = torch.zeros_like(own.unique()).scatter(0, own, pools(turns.group[episode], number))
        values = compared(sums(rewards, own), same, self.std, size=sums(rewards.abs(), own))
        return torch.zeros_like(turns.reward).masked_scatter(turns.mask, values[own])


@dataclass(kw_only=True)
class GroupScale(Method):
    """``A_t *= min(most, G / G_good)``: G groups, of which G_good have unequal scores.

    If no group has, every advantage is 0.
    """

    most: float = number(1)

    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, WHOLE_STEP})
    conflicts = (
        excludes("filter", "zero_std", "dynamic_sampling", reason="no group has equal scores, so its factor is 1"),
        without("after", "it scales what the other methods return"),
        Conflict(
            ("algo.name",),
            lambda _, word: base_of(word) == "lite_ppo",
            "advantages are divided by their deviation over the step already",
            "algo=grpo",
        ),
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        good = int((~equal_scores(turns.score, turns.score_size, turns.group)).sum())
        groups = len(turns.group.unique())
        return advantages * (min(self.most, groups / good) if good else 0.0)
