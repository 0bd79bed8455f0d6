"""GRAFT-like credit: a turn's advantage is what it changed in the value of its state, in the graph that its group saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from algorithms.slots import in_range
from algorithms.turns import Turns

TOLERANCE = 1e-9
SWEEPS = 1000  # bound what cycles with a reward take where gamma is near 1
BACKUPS = ("max", "mean")


@dataclass
class Graft:
    """``A_t = r_t + gamma V(s') - V(s)`` in place of the advantage that was there.

    Written from one line, without ``r_t``; it is added, since the winning move of a sparse game would have -1 without it. V is
    computed by value iteration over the states and moves of all the group's samples. It is 0 after a move that ended the game,
    and in a state that no turn of the group answered. An episode that was cut off goes on in the graph where its last state is
    in it.

    Attributes:
        gamma: discount a turn.
        backup: ``max``: V(s) is the largest over the actions seen in s of the mean of r + gamma V(s'); ``mean``: the mean
            over all turns that answered s, which is the value of the policy that sampled them.
        scale: give the batch's turns the standard deviation of the advantages that were there, so that a learning rate of theirs fits.
        bootstrap_truncated: false: V is 0 after an episode that was cut off too, as its return was; unless said it goes on.
    """

    gamma: float = 0.95
    backup: str = "max"
    scale: bool | None = None
    bootstrap_truncated: bool | None = None

    grains: ClassVar[frozenset[str]] = frozenset({"turn", "episode"})
    compares: ClassVar[bool] = True
    compares_turns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        in_range(0, 1, gamma=self.gamma)
        if self.backup not in BACKUPS:
            raise ValueError(f"backup={self.backup} must be max or mean")

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        mask = turns.mask.numpy()
        if not mask.any():
            return advantages.clone()
        episode, turn = mask.nonzero()
        reward = turns.reward.numpy()[mask]
        state, after = _nodes(turns.group.numpy()[episode], turns.state.numpy()[mask], turns.after.numpy()[mask])
        terminal = ~turns.cut_off.numpy()[episode] | (self.bootstrap_truncated is False)
        ended = (turn == turns.last.numpy()[episode]) & terminal
        value = _values(state, turns.action.numpy()[mask], after, reward, ~ended, self.gamma, self.backup)
        found = advantages.clone()
        gain = reward + self.gamma * ~ended * value[after] - value[state]
        if self.scale and gain.std() > TOLERANCE:
            gain *= advantages[turns.mask].double().numpy().std() / gain.std()
        found[turns.mask] = torch.from_numpy(gain).to(found.dtype)
        return found


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
