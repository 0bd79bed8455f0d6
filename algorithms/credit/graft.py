"""GRAFT-like credit: a turn's advantage is the change of the state's value."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from turngrid.algorithms.pools import pools, without_rounding
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, LOSES_KL, LOSES_TURNS, OWN_TURNS, Method, number, word

TOLERANCE = 1e-9
SWEEPS = 1000  # maximum iterations; cycles with a reward converge slowly if gamma is near 1


def _scales_by_fewer(graft: "Graft", rejected: str | None, rows: str) -> bool:
    return bool(graft.scale) and LOSES_TURNS.when(graft, rejected, rows)


@dataclass(kw_only=True)
class Graft(Method):
    """``A_t = r_t + gamma V(s') - V(s)``, replacing the estimator's advantage.

    The paper's formula lacks ``r_t``; with a sparse reward the winning move would then get -1. V
    comes from value iteration over the states and moves of all samples of the group. V is 0 after a
    move that ended the game, and in a state that no turn of the group answered.

    An episode that was cut off continues in the graph if its last state is in it. Otherwise V(s) of
    its last turn counts as 0 if it is negative, so that running out of turns is not rewarded for
    saving costs. A summary, which does not act, gets 0.

    With ``backup=max``, V(s) is the largest over the actions seen in s of the mean of r + gamma
    V(s'). With ``mean`` it is the mean over all turns that answered s: the sampling policy's value.
    """

    gamma: float = number(0, 1)
    backup: str = word("max", "mean")
    scale: bool | None
    bootstrap_truncated: bool | None

    grains = frozenset({"episode"})  # it would discard a critic's estimate of each turn
    requires = frozenset({GROUPS, OWN_TURNS})
    conflicts = (LOSES_KL, replace(LOSES_TURNS, when=_scales_by_fewer))

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if not turns.acts.any():
            return advantages.clone()
        gain = self._gains(turns, turns.acts.numpy())
        if self.scale and gain.std() > TOLERANCE:
            gain *= advantages[turns.acts].double().numpy().std() / gain.std()
        gains = torch.from_numpy(gain).to(advantages.dtype)
        return torch.zeros_like(advantages).masked_scatter(turns.acts, gains)

    def _gains(self, turns: Turns, acts: np.ndarray) -> np.ndarray:
        """Return the advantage of every turn that acts, (turns,), 0 if it may be rounding alone."""
        episode, turn = acts.nonzero()
        reward, group, cut = turns.reward.numpy()[acts], turns.group.numpy()[episode], turns.cut_off.numpy()[episode]
        # equal states of two groups are two nodes
        both = torch.cat([turns.state[turns.acts], turns.after[turns.acts]])
        state, after = np.split(pools(torch.from_numpy(group).repeat(2), both).numpy(), 2)
        last = turn == turns.last.numpy()[episode]
        ended = last & (~cut | (self.bootstrap_truncated is False))
        value = _values(state, turns.action.numpy()[acts], after, reward, ~ended, self.gamma, self.backup)
        follows = self.gamma * ~ended * value[after]
        stops = last & cut & (ended | ~np.isin(after, state))
        base = np.where(stops, value[state].clip(min=0), value[state])
        sizes = np.abs(reward) + np.abs(follows) + np.abs(base)
        return without_rounding(*map(torch.from_numpy, (reward + follows - base, group, sizes))).numpy()


def _values(
    state: np.ndarray,
    action: np.ndarray,
    after: np.ndarray,
    reward: np.ndarray,
    goes_on: np.ndarray,
    gamma: float,
    backup: str,
) -> np.ndarray:
    """Return V of each node, float64.

    It uses NumPy: with so many short operations, torch's threads would wait for each other while
    other processes hold the cores.

    Args:
        state, action, after, reward: (turns,), nodes numbered from 0.
        goes_on: (turns,) bool, the game is not over after the move.
    """
    nodes = max(state.max(), after.max()) + 1
    names, number = np.unique(action, return_inverse=True)
    pairs, move, times = np.unique(state * len(names) + number, return_inverse=True, return_counts=True)
    rewards = np.bincount(move, reward) / times
    actor, first = np.unique(pairs // len(names), return_index=True)
    inside = goes_on & np.isin(after, actor)
    edges, count = np.unique(move[inside] * nodes + after[inside], return_counts=True)
    source, target = edges // nodes, edges % nodes
    share = gamma * (count / times[source])
    value, best = np.zeros(nodes), np.zeros(len(actor))
    visits = times / np.repeat(np.add.reduceat(times, first), np.diff([*first, len(pairs)]))
    for _ in range(SWEEPS):
        worth = rewards + np.bincount(source, share * value[target], minlength=len(pairs))
        before = best
        best = np.add.reduceat(visits * worth, first) if backup == "mean" else np.maximum.reduceat(worth, first)
        value[actor] = best
        if np.abs(best - before).max() <= TOLERANCE:
            break
    return value
