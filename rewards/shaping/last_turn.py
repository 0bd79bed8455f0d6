"""Transforms of the last turn's reward, by length and score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turngrid.rewards.declared import FIRST, Method, excludes, in_range, number
from turngrid.rewards.reward import RewardView

PUBLISHED_SHARE = 5  # 4,096 of 20,480 tokens


@dataclass(kw_only=True)
class TurnBonus(Method):
    """``r_last += weight * decay * min(1, a_turn * turns)``. It pays for mere length."""

    weight: float = number()
    a_turn: float = number(0, 1)
    decay: float = number()

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns = sum(not turn.aside for turn in view.episode.turns)
        return view.plus_last(self.weight * self.decay * min(1.0, self.a_turn * turns))


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


@dataclass(kw_only=True)
class F1(Method):
    """``r_last = 2 p r / (p + r)``, in place of the trained reward; 0 if nothing was solved.

    r is the share of the game's maximum score, or won, if the game has no score. ``p = min(1, r L /
    c)``, c turns, replayed ones included, L actions of the expert plan; r without a plan.
    """

    conflicts = (
        excludes("shaping", "turn_bonus", reason="one pays for turns, the other charges them", use="shaping=[f1]"),
        FIRST,
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        episode = view.episode
        recall = float(episode.won) if episode.score is None else episode.score
        turns = sum(not turn.aside for turn in [*episode.prefix, *episode.turns])
        precision = min(1.0, recall * view.plan / max(1, turns)) if view.plan else recall
        paid = 2 * precision * recall / (precision + recall) if recall > 0 else 0.0
        return view.only_last(paid)


@dataclass(kw_only=True)
class CosineLength(Method):
    """``r_last = long + (short - long) (1 + cos(pi n / tokens)) / 2``, not the trained reward.

    n is the number of the episode's action tokens; if it exceeds ``tokens``, the reward is
    ``beyond``. Won and lost episodes have separate values of ``short`` (n = 0) and ``long``.
    """

    tokens: int = number(1)
    won_short: float = number()
    won_long: float = number()
    lost_short: float = number()
    lost_long: float = number()
    beyond: float = number()

    conflicts = (FIRST,)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        count = sum(len(turn.action_ids) for turn in view.episode.turns)
        won = view.episode.won
        short, long = (self.won_short, self.won_long) if won else (self.lost_short, self.lost_long)
        paid = long + (short - long) * (1 + math.cos(math.pi * count / self.tokens)) / 2
        return view.only_last(self.beyond if count > self.tokens else paid)
