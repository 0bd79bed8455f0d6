from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turngrid.rewards.declared import Method, in_range, number
from turngrid.rewards.reward import RewardView

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

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("buffer", self._buffer, 1, self.limit)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        left = self.limit - self._buffer - self._longest(view.episode.turns)
        return view.plus_last(self.factor * min(0, left) / self._buffer)

    @property
    def _buffer(self) -> int:
        return max(1, self.limit // PUBLISHED_SHARE) if self.buffer is None else self.buffer

    def _longest(self, turns: Sequence[Any]) -> int:
        longest = row = 0
        for turn in turns:
            size = len(turn.action_ids) + (0 if self.actions_only else len(turn.context_ids))
            row = size if turn.prompt_ids else row + size
            longest = max(longest, row)
        return longest
