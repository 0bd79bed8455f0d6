"""The credit log: the advantage, return and value of each token in an update.

They are read from verl's queue, as the update reads them, so that log and update cannot differ. The
format is that of ``turngrid.records.credit``.
"""

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from transfer_queue import KVBatchMeta

from turngrid.algorithms.slots import StoredEpisode
from turngrid.records.credit import Credit, Replayed, tokens_of, write_credit
from turngrid.records.files.json_lines import write_lines
from turngrid.verl_plugin.training.replay import REPLAYED
from turngrid.verl_plugin.training.step import Metrics, Step
from turngrid.verl_plugin.training.turn_rows import read

DIGITS = 7  # significant digits, about a float32's precision; halves the file
OF_TOKENS = ("advantages", "returns", "values")
FIELDS = ("turn_ids", "loss_mask", "response_mask", *OF_TOKENS)


class CreditLog:
    """Records the credit of a step's tokens. ``tracking.credit=false`` turns it off."""

    def __init__(self, on: bool, step: Step) -> None:
        self.on, self._step = on, step
        self._credits: dict[str, Credit] = {}

    def note(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Keep the credit of this batch until the step is written."""
        self._credits |= credits_of(batch)
        return batch

    def write(self, step: Path, names: Sequence[str]) -> None:
        """Write ``rl/credit/STEP.jsonl``, a line for each of the step's episodes by name."""
        if not self.on:
            return
        credits, self._credits = self._credits, {}
        if credits:
            lines = [_of_episode(credits, name, self._step.layers.get(name, {})) for name in names]
            write_credit(step.parents[1] / "credit" / f"{step.name}.jsonl", lines)
        if self._step.replayed:
            numbers = {None: None} | {name: number for number, name in enumerate(names)}
            replayed = [_replayed(episode, numbers[own]) for episode, own in self._step.replayed]
            write_lines(step.parents[1] / "replayed" / f"{step.name}.jsonl", replayed)


def _replayed(episode: StoredEpisode, instead: int | None) -> Replayed:
    rows = [(row["prompts"].tolist(), row["responses"].tolist()) for row in episode.rows]
    return Replayed(episode.step, tokens_of(rows), episode.advantage if instead is None else None, instead)


def credits_of(batch: KVBatchMeta) -> dict[str, Credit]:
    """Return each row's credit by its key, without verl's padding rows and replaced rows."""
    real = [
        key
        for key, tag in zip(batch.keys, batch.tags, strict=True)
        if not tag.get("is_padding", False) and not tag.get(REPLAYED, False)
    ]
    data = read(batch.select_keys(real), *FIELDS)
    names = set(data.keys())
    columns = [_rows(data[name]) if name in names else [None] * len(real) for name in FIELDS]
    return {
        key: _credit(mask if ids is None else ids > 0, *row)  # filters mute tokens in the mask
        for key, (ids, mask, *row) in zip(real, zip(*columns, strict=True), strict=True)
    }


def _rows(column: Any) -> list[np.ndarray]:
    return [row.float().numpy() for row in column.unbind()]


def rounded(numbers: np.ndarray) -> list[Any]:
    """Round to ``DIGITS`` significant digits; return nested lists in the array's shape."""
    exact = numbers.astype(np.float64)
    size = np.where(exact == 0, 1.0, np.abs(exact))
    scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
    return (np.round(exact * scale) / scale).tolist()


def _credit(
    sampled: np.ndarray, used: np.ndarray, advantages: np.ndarray, returns: np.ndarray, values: np.ndarray | None
) -> Credit:
    """Return the credit of a row's sampled tokens; None for tokens that were not learned from."""
    indices = np.flatnonzero(sampled)
    kept = used[indices] != 0
    shown: list[float | None] = list(rounded(advantages[indices]))
    for index in np.flatnonzero(~kept):
        shown[index] = None
    return Credit(shown, rounded(returns[indices]), [] if values is None else rounded(values[indices]))


def _of_episode(credits: Mapping[str, Credit], session: str, layers: Mapping[str, list[float]]) -> Credit | None:
    """Join the credit of an episode's rows; None if no row of it was trained on."""
    rows = list(takewhile(lambda credit: credit is not None, (credits.get(f"{session}_{row}") for row in count())))
    joined = {name: [x for credit in rows for x in getattr(credit, name)] for name in OF_TOKENS}
    return Credit(**joined, layers=layers) if joined["advantages"] else None
