"""GRAFT-like credit: a turn's advantage is what it changed in the value of its state, in the graph that its group saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from algorithms.pools import without_rounding
from algorithms.slots import in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, OWN_TURNS, Conflict, Requires

TOLERANCE = 1e-9
SWEEPS = 1000  # bound what cycles with a reward take where gamma is near 1
BACKUPS = ("max", "mean")


@dataclass
class Graft:
    """``A_t = r_t + gamma V(s') - V(s)`` in place of the advantage that was there.

    Written from one line, without ``r_t``; it is added, since the winning move of a sparse game would have -1 without it. V is
    computed by value iteration over the states and moves of all the group's samples. It is 0 after a move that ended the game,
    and in a state that no turn of the group answered. An episode that was cut off goes on in the graph where its last state is
    in it. Where nothing follows such an episode, V(s) of its last turn counts as 0 where it is below: running out of turns is not
    paid for the costs that it spares. A summary, which does not act, gets 0.

    Attributes:
        gamma: discount a turn.
        backup: ``max``: V(s) is the largest over the actions seen in s of the mean of r + gamma V(s'); ``mean``: the mean
            over all turns that answered s, which is the value of the policy that sampled them.
        scale: give the batch's turns the standard deviation of the advantages that were there, so that a learning rate of theirs fits.
        bootstrap_truncated: false: nothing follows an episode that was cut off, as nothing did; unless said it goes on in the graph.
    """

    gamma: float = 0.95
    backup: str = "max"
    scale: bool | None = None
    bootstrap_truncated: bool | None = None

    grains: ClassVar[frozenset[str]] = frozenset({"episode"})  # it would replace what a critic found of a turn
    requires: ClassVar[Requires] = frozenset({GROUPS, OWN_TURNS})
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("algorithm.use_kl_in_reward",),
            lambda _, on: on,
            "the advantages that it replaces had the KL",
            "algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true",
            warns=True,
        ),
    )

    def __post_init__(self) -> None:
        in_range(0, 1, gamma=self.gamma)
        if self.backup not in BACKUPS:
            raise ValueError(f"backup={self.backup} must be max or mean")

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        acts = turns.acts.numpy()
        if not acts.any():
            return advantages.clone()
        episode, turn = acts.nonzero()
        reward, group, cut = turns.reward.numpy()[acts], turns.group.numpy()[episode], turns.cut_off.numpy()[episode]
        state, after = _nodes(group, turns.state.numpy()[acts], turns.after.numpy()[acts])
        last = turn == turns.last.numpy()[episode]
        ended = last & (~cut | (self.bootstrap_truncated is False))
        value = _values(state, turns.action.numpy()[acts], after, reward, ~ended, self.gamma, self.backup)
        follows = self.gamma * ~ended * value[after]
        stops = last & cut & (ended | ~np.isin(after, state))
        base = np.where(stops, value[state].clip(min=0), value[state])
        gain = _without_rounding(reward + follows - base, group, np.abs(reward) + np.abs(follows) + np.abs(base))
        if self.scale and gain.std() > TOLERANCE:
            gain *= advantages[turns.acts].double().numpy().std() / gain.std()
        found = torch.zeros_like(advantages)
        found[turns.acts] = torch.from_numpy(gain).to(found.dtype)
        return found


def _without_rounding(gain: np.ndarray, group: np.ndarray, size: np.ndarray) -> np.ndarray:
    return without_rounding(*map(torch.from_numpy, (gain, group, size))).numpy()


def _nodes(group: np.ndarray, state: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The state that each turn answered and the one that followed, numbered; equal states of two groups are two nodes."""
    hashes, number = np.unique(np.concatenate([state, after]), return_inverse=True)
    _, node = np.unique(np.tile(group, 2) * len(hashes) + number, return_inverse=True)
    return node[: len(state)], node[len(state) :]


def _values(
    state: np.ndarray,
    action: np.ndarray,
    after: np.ndarray,
    reward: np.ndarray,
    goes_on: np.ndarray,
    gamma: float,
    backup: str,
) -> np.ndarray:
    """V of each node, float64.

    NumPy, since between this many short steps torch's threads wait for each other where other processes hold the cores.

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
    visits = times / np.repeat(np.add.reduceat(times, first), np.diff([*first, len(pairs)]))  # share of a state's turns
    for _ in range(SWEEPS):
        worth = rewards + np.bincount(source, share * value[target], minlength=len(pairs))
        before = best
        best = np.add.reduceat(visits * worth, first) if backup == "mean" else np.maximum.reduceat(worth, first)
        value[actor] = best
        if np.abs(best - before).max() <= TOLERANCE:
            break
    return value
