"""Keeps what each update was told of its tokens, beside the step's episodes; ``records.credit`` has the format.

Read back from where the update itself reads it, after all corrections, so that the record cannot differ from the use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import transfer_queue as tq
from transfer_queue import KVBatchMeta

from algorithms.slots import StoredEpisode
from records.credit import Credit, write_credit
from records.replayed import Replayed, tokens_of, write_replayed
from verl_plugin.training.replay import REPLAYED

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Base
else:
    Base = object

DIGITS = 7  # significant ones, about as many as a float32 has; the file is half as long as with all of a double's
OF_TOKENS = ("advantages", "returns", "values")
FIELDS = ("turn_ids", "loss_mask", "response_mask", *OF_TOKENS)


class CreditLog(Base):
    """Mixed into the trainer, before verl's class. ``tracking.credit=false`` turns it off."""

    _layers: dict[str, dict[str, list[float]]]  # of ``methods.Methods``, as is the next
    _learned_again: Sequence[tuple[StoredEpisode, str | None]] = ()

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._credits: dict[str, Credit] = {}

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = super()._compute_advantage(batch, metrics)
        if self.config.tracking.credit:
            self._credits |= credits_of(batch)
        return batch

    def write_credit(self, step: Path, groups: Sequence[Path]) -> None:
        """Before the episodes in ``groups`` become one file, ``STEP.jsonl`` beside the folder ``step``: the same lines, in
        ``rl/credit/STEP.jsonl``."""
        credits, self._credits = self._credits, {}
        layers, self._layers = self._layers, {}
        if credits:
            lines = [_of_episode(credits, session, layers.get(session, {})) for session in sessions(groups)]
            write_credit(step.parents[1] / "credit" / f"{step.name}.jsonl", lines)
        again, self._learned_again = self._learned_again, ()
        if again and self.config.tracking.credit:
            places = {name: line for line, name in enumerate(sessions(groups))}
            found = [_replayed(episode, None if name is None else places[name]) for episode, name in again]
            write_replayed(step.parents[1] / "replayed" / f"{step.name}.jsonl", found)


def _replayed(episode: StoredEpisode, instead: int | None) -> Replayed:
    rows = [(row["prompts"].tolist(), row["responses"].tolist()) for row in episode.rows]
    return Replayed(episode.step, tokens_of(rows), episode.advantage if instead is None else None, instead)


def credits_of(batch: KVBatchMeta) -> dict[str, Credit]:
    """By the row's key; left out are verl's padding rows, and those in whose place an earlier episode was learned from."""
    real = [
        key
        for key, tag in zip(batch.keys, batch.tags, strict=True)
        if not tag.get("is_padding", False) and not tag.get(REPLAYED, False)
    ]
    data = tq.kv_batch_get(keys=real, partition_id=batch.partition_id, select_fields=list(FIELDS))
    names = set(data.keys())
    columns = [_rows(data[name]) if name in names else [None] * len(real) for name in FIELDS]
    return {
        key: _credit(mask if ids is None else ids > 0, *row)  # a filter takes tokens out of the mask that were sampled
        for key, (ids, mask, *row) in zip(real, zip(*columns, strict=True), strict=True)
    }


def _rows(column: Any) -> list[np.ndarray]:
    return [row.float().numpy() for row in column.unbind()]


def rounded(numbers: np.ndarray) -> list[Any]:
    """To ``DIGITS`` significant digits, all at once: a step of a large batch has millions of tokens. Lists as deep as the array."""
    exact = numbers.astype(np.float64)
    size = np.where(exact == 0, 1.0, np.abs(exact))
    scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
    return (np.round(exact * scale) / scale).tolist()


def _credit(
    sampled: np.ndarray, used: np.ndarray, advantages: np.ndarray, returns: np.ndarray, values: np.ndarray | None
) -> Credit:
    """One row's sampled tokens. A correction may have taken some of them out of the update."""
    places = np.flatnonzero(sampled)
    kept = used[places] != 0
    shown: list[float | None] = list(rounded(advantages[places]))
    for place in np.flatnonzero(~kept):
        shown[place] = None
    return Credit(shown, rounded(returns[places]), [] if values is None else rounded(values[places]))


def _of_episode(credits: Mapping[str, Credit], session: str, layers: Mapping[str, list[float]]) -> Credit | None:
    """An episode has one row, or one a window, which together have each of its turns once. None: rejection or a filter before
    the baseline left nothing of it."""
    found = list(takewhile(lambda credit: credit is not None, (credits.get(f"{session}_{row}") for row in count())))
    joined = {name: [x for credit in found for x in getattr(credit, name)] for name in OF_TOKENS}
    return Credit(**joined, layers=layers) if joined["advantages"] else None


def sessions(groups: Sequence[Path]) -> list[str]:
    """What verl's keys of the episodes in these files begin with, one file a prompt, one line a sample, in the order of the
    merge."""
    names = []
    for file in groups:
        with file.open("rb") as lines:
            names += [f"{file.stem}_{sample}" for sample, _ in enumerate(lines)]
    return names
