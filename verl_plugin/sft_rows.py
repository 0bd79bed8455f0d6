"""Demonstration episodes as the rows of verl's SFT trainer, through the tokenisation that RL rows go through."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from omegaconf import DictConfig
from torch import Tensor
from torch.utils.data import Dataset

from algorithms.registry import FORM
from rollouts.episode import Episode
from rollouts.prompt_forms.form import PromptForm
from rollouts.prompt_forms.registry import prompt_form
from rollouts.row import Row, to_rows
from rollouts.store import read_episodes, write_episodes
from rollouts.summaries import Summaries
from rollouts.tokenise import fill_ids
from rollouts.window import Window, window_of
from verl_plugin.rollout.token_stream import TokenCodec


class EpisodeRows(Dataset[dict[str, Tensor]]):
    """One row an episode, or one a window of it: ``input_ids``, ``position_ids`` and ``loss_mask``, int64 tensors of the row's length.

    The mask is 1 on the tokens of actions, their end of turn included, and on nothing else. What follows the last
    action is cut off, since no loss is taken there.

    Raises:
        ValueError: no episodes, or one that is longer than ``max_tokens``, which RL would cut off.
    """

    def __init__(self, episodes: Iterable[Episode], codec: TokenCodec, max_tokens: int) -> None:
        self._rows = [_row(row) for episode in episodes for row in to_rows(with_ids(episode, codec), reward="")]
        if not self._rows:
            raise ValueError("no demonstrations to learn from")
        longest = max(len(row["input_ids"]) for row in self._rows)
        if longest > max_tokens:
            raise ValueError(
                f"a demonstration has {longest} tokens, more than data.max_prompt_length + data.max_response_length "
                f"= {max_tokens}: raise them, or take a task with shorter expert plans"
            )

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self._rows[index]


def with_ids(
    episode: Episode, codec: TokenCodec, window: Window | Summaries | None = None, form: PromptForm | None = None
) -> Episode:
    """The episode itself where it has token ids, else a copy with them."""
    return episode if episode.prompt_ids else fill_ids(episode, codec.stream(), window, form)


def record_ids(run: DictConfig, codec: TokenCodec) -> list[Episode]:
    """Fill in the ids of the demonstrations in ``run.episodes``: the record then shows what was imitated, token for token."""
    path, form = Path(run.episodes), prompt_form(run.get("prompt"))
    window = window_of(run, form, run.get(FORM))
    episodes = [with_ids(episode, codec, window, form) for episode in read_episodes(path)]
    write_episodes(path, episodes)
    return episodes


def _row(row: Row) -> dict[str, Tensor]:
    end = len(row.mask) - row.mask[::-1].index(1)
    ids = torch.tensor(row.prompt_ids + row.response_ids[:end])
    loss_mask = torch.tensor([0] * len(row.prompt_ids) + row.mask[:end])
    return {"input_ids": ids, "position_ids": torch.arange(len(ids)), "loss_mask": loss_mask}
