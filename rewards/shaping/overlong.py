"""DAPO's soft penalty for rows that come near the token limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngrid.rewards.declared import Card, Method, in_range, number
from turngrid.rewards.shaping.view import PlayedTurn, RewardView

PUBLISHED_SHARE = 5  # 4,096 of 20,480 tokens


@dataclass(kw_only=True)
class Overlong(Method):
    """``r_last += factor * min(0, limit - buffer - n) / buffer``, n the tokens of the longest row.

    Actions and observations count, unless ``actions_only``. If ``buffer`` is None, it is a fifth of
    the limit.
    """

    limit: int = number(1)
    buffer: int | None
    factor: float = number(0)
    actions_only: bool

    card = Card(
        "lowers the last turn's reward, by 0 for a row of `limit - buffer` tokens, by `factor` for one of `limit`, "
        "and further beyond",
        paper="2503.14476; 2510.11701",
        source="code",
        ours="the longest row counts",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range(1, self.limit, buffer=self._buffer)

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
