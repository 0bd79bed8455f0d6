"""DAPO's soft penalty for rows that come near the limit of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.utils.ranges import in_range
from rewards.shaping.view import PlayedTurn, RewardView

PUBLISHED_SHARE = 5  # 4,096 of 20,480 tokens


@dataclass
class Overlong:
    """``r_last += factor * min(0, limit - buffer - n) / buffer`` (DAPO and arXiv 2510.11701, released code), n the tokens of a
    row's actions and observations, of the longest row where an episode has several.

    Attributes:
        limit: tokens at which ``factor`` is the price.
        buffer: tokens before the limit over which the price grows from 0; None: a fifth of it, as published.
        factor: in units of the trained reward.
        actions_only: observations do not count.
    """

    limit: int = 4096
    buffer: int | None = None
    factor: float = 1.0
    actions_only: bool = False

    def __post_init__(self) -> None:
        in_range(1, limit=self.limit)
        in_range(1, self.limit, buffer=self._buffer)
        in_range(0, factor=self.factor)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        left = self.limit - self._buffer - self._longest(view.episode.turns)
        return view.plus_last(self.factor * min(0, left) / self._buffer)

    @property
    def _buffer(self) -> int:
        return max(1, self.limit // PUBLISHED_SHARE) if self.buffer is None else self.buffer

    def _longest(self, turns: Sequence[PlayedTurn]) -> int:
        longest = row = 0
        for turn in turns:
            size = len(turn.action_ids) + (0 if self.actions_only else len(turn.context_ids))
            row = size if turn.prompt_ids else row + size
            longest = max(longest, row)
        return longest
