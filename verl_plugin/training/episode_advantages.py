"""Advantages over whole episodes that have several rows, one a window.

The rows of an episode are concatenated. So a group's baseline counts each episode once, GAE's
values and REINFORCE++'s returns continue from window to window, and the KL stays in the rewards of
its row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from verl.protocol import DataProto

INPUTS = ("token_level_rewards", "response_mask", "values")  # tensors that the estimators read
OUTPUTS = ("advantages", "returns")


def sessions(keys: Sequence[str]) -> list[list[int]]:
    """Return the row numbers of each episode in window order; keys are
    ``<prompt>_<sample>_<row>``.
    """
    episodes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, key in enumerate(keys):
        session, _, row = key.rpartition("_")
        episodes[session].append((int(row), number))
    return [[number for _, number in sorted(rows)] for rows in episodes.values()]


def concat_rows(rows: Tensor, episodes: Sequence[Sequence[int]]) -> Tensor:
    """Concatenate each episode's rows, then pad with 0: (rows, tokens) -> (episodes, most rows x
    tokens).
    """
    longest = max(map(len, episodes))
    joined = rows.new_zeros((len(episodes), longest, rows.shape[1]))
    for number, members in enumerate(episodes):
        joined[number, : len(members)] = rows[list(members)]
    return joined.reshape(len(episodes), -1)


def split_rows(joined: Tensor, episodes: Sequence[Sequence[int]], rows: int) -> Tensor:
    """Undo ``concat_rows``."""
    parts = joined.reshape(len(episodes), max(map(len, episodes)), -1)
    split = joined.new_zeros((rows, parts.shape[2]))
    for number, members in enumerate(episodes):
        split[list(members)] = parts[number, : len(members)]
    return split


def by_episode(original: Callable[..., DataProto]) -> Callable[..., DataProto]:
    """Estimate over whole episodes: verl's GRPO scores only the last row, and its other estimators
    count rows.

    Batches with one row an episode go to ``original``.

    Until verl counts episodes.
    """

    def estimate(data: DataProto, batch_keys: list[str], **settings: Any) -> DataProto:
        episodes = sessions(batch_keys)
        if len(episodes) == len(batch_keys):
            return original(data, batch_keys=batch_keys, **settings)
        joined = {name: concat_rows(data.batch[name], episodes) for name in INPUTS if name in data.batch}
        groups = {"uid": data.non_tensor_batch["uid"][[members[0] for members in episodes]]}
        from verl.trainer.ppo.ray_trainer import compute_advantage  # imported here to avoid a circular import

        whole = compute_advantage(DataProto.from_dict(joined, non_tensors=groups), **settings)
        for name in OUTPUTS:
            data.batch[name] = split_rows(whole.batch[name], episodes, len(batch_keys))
        return data

    return estimate
