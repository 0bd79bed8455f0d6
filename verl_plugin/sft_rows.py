"""Demonstration episodes as rows of verl's SFT trainer, tokenised as in RL."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path

import torch
from omegaconf import DictConfig
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from turngrid.algorithms.registry import FORM
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.row import Row, to_rows
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.rollouts.tokenise import fill_ids
from turngrid.rollouts.window import Summaries, Window, window_of
from turngrid.tasks.early_experience import WORLD_MODEL
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

PREDICTED_TOKENS = 256  # maximum tokens of an observation


class EpisodeRows(Dataset[dict[str, Tensor]]):
    """Rows of an SFT data set: one an episode, or one a window.

    Each has ``input_ids``, ``position_ids`` and ``loss_mask``, int64, of the row's length. Tokens
    after the last action are dropped, since they have no loss.

    Raises:
        ValueError: there are no episodes, or RL would cut one off (``max_tokens``).
    """

    def __init__(self, episodes: Iterable[Episode], codec: TokenCodec, max_tokens: int) -> None:
        self._rows = [_row(row) for episode in episodes for row in to_rows(with_ids(episode, codec), reward="")]
        if not self._rows:
            raise ValueError("no demonstrations to learn from")
        longest = max(len(row["input_ids"]) for row in self._rows)
        if longest > max_tokens:
            raise ValueError(
                f"data.max_prompt_length + data.max_response_length={max_tokens}: a demonstration has {longest} "
                "tokens; raise them, or choose a task with shorter expert plans"
            )

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self._rows[index]


def with_ids(
    episode: Episode, codec: TokenCodec, window: Window | Summaries | None = None, form: PromptForm | None = None
) -> Episode:
    return episode if episode.prompt_ids else fill_ids(episode, codec.stream(), window, form)


def record_ids(run: DictConfig, codec: TokenCodec, form: PromptForm) -> list[Episode]:
    """Fill in the token ids of ``run.episodes``, so that each imitated token is on record."""
    path, window = Path(run.episodes), window_of(run, form, run.get(FORM))
    episodes = [with_ids(episode, codec, window, form) for episode in read_episodes(path)]
    write_episodes(path, episodes)
    return episodes


def record_experience(run: DictConfig, codec: TokenCodec, form: PromptForm) -> list[Episode]:
    """Fill in the token ids of ``run.experience.rows``; shorten long observations in the loss."""
    path = Path(run.experience.rows)
    whole = [with_ids(episode, codec, form=form) for episode in read_episodes(path)]
    if run.experience.kind == WORLD_MODEL:
        cut = ([replace(turn, action_ids=turn.action_ids[:PREDICTED_TOKENS]) for turn in row.turns] for row in whole)
        whole = [replace(row, turns=turns) for row, turns in zip(whole, cut, strict=True)]
    lengths = (len(row.prompt_ids) + sum(len(turn.action_ids) for turn in row.turns) for row in whole)
    fitting = [row for row, length in zip(whole, lengths, strict=True) if length <= run.max_tokens]
    if not fitting:
        raise ValueError("demos.experience: no row to learn from; raise demos.alternatives, or leave it out")
    if len(fitting) < len(whole):
        left_out = f"{len(whole) - len(fitting)} of {len(whole)} rows"
        print(f"turngrid: {left_out} have more than {run.max_tokens} tokens and are left out", flush=True)
    write_episodes(path, fitting)
    return fitting


class SftBatches(Sampler[list[int]]):
    """Batch sampler of one rank: in epoch 0 all predictions, if any; else all demonstrations.

    Epoch 0 has as many batches as an epoch of demonstrations, which are the first rows. ``batch``
    is that of all ranks. Rows that do not divide over the ranks are filled up with repeated ones.

    Raises:
        ValueError: there are predictions, but fewer than batches.
    """

    def __init__(self, demonstrations: int, predictions: int, batch: int, rank: int, ranks: int) -> None:
        self._demonstrations, self._predictions = demonstrations, predictions
        self._batch, self._rank, self._ranks = batch // ranks, rank, ranks
        self.seed = self.epoch = 0
        if predictions and ceil(predictions / ranks) < len(self):
            raise ValueError(
                f"demos.experience: {predictions} alternatives are fewer than the {len(self)} updates of an epoch, "
                "since the model nearly always does as the expert did; raise demos.alternatives, or leave it out"
            )

    def __len__(self) -> int:
        return ceil(ceil(self._demonstrations / self._ranks) / self._batch)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        predicts = self._predictions and not self.epoch
        rows, first = (self._predictions, self._demonstrations) if predicts else (self._demonstrations, 0)
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(self.seed + self.epoch)) + first
        mine = order.tile(self._ranks)[self._rank : ceil(rows / self._ranks) * self._ranks : self._ranks]
        batches = mine.tensor_split(len(self)) if predicts else mine.split(self._batch)
        return iter([batch.tolist() for batch in batches])


def _row(row: Row) -> dict[str, Tensor]:
    end = len(row.mask) - row.mask[::-1].index(1)
    ids = torch.tensor(row.prompt_ids + row.response_ids[:end])
    loss_mask = torch.tensor([0] * len(row.prompt_ids) + row.mask[:end])
    return {"input_ids": ids, "position_ids": torch.arange(len(ids)), "loss_mask": loss_mask}
