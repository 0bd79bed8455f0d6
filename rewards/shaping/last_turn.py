"""Transforms of the reward at the end of an episode or attempt, by length, score and success."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turngrid.rewards.declared import FIRST, Card, Conflict, Method, excludes, in_range, number
from turngrid.rewards.reward import TRAINED, RewardView

PUBLISHED_SHARE = 5  # 4,096 of 20,480 tokens

WON = "won"
_AGAIN = Conflict(("several plays",), lambda _, are: not are, "no game is attempted again", "rollout_form=attempts")


@dataclass(kw_only=True)
class TurnBonus(Method):
    """``r_last += weight * decay * min(1, a_turn * turns)``. It pays for mere length."""

    weight: float = number()
    a_turn: float = number(0, 1)
    decay: float = number()

    card = Card(paper="2509.22601", source="code", ours="`weight` 0.1, a win being 1 (there 1 and 10)")

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

    card = Card(paper="2503.14476; 2510.11701", source="code", ours="the longest row counts")

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range(1, self.limit, buffer=self._buffer)

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
    card = Card(
        paper="2601.21558",
        needs="no transform before it. Without a score, recall is having won; without an expert plan, precision is "
        "recall",
        ours="recall and precision by score and turns (there by subtasks solved, and by tool calls); without a plan, a "
        "game's shortest win does not replace it",
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
    card = Card(
        paper="2605.02943",
        source="code",
        needs="no transform before it",
        ours="`tokens`; the tokens of all rows and of summaries count",
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        count = sum(len(turn.action_ids) for turn in view.episode.turns)
        won = view.episode.won
        short, long = (self.won_short, self.won_long) if won else (self.lost_short, self.lost_long)
        paid = long + (short - long) * (1 + math.cos(math.pi * count / self.tokens)) / 2
        return view.only_last(self.beyond if count > self.tokens else paid)


@dataclass(kw_only=True)
class TryAgain(Method):
    """``r_last = gamma^k - lam (1 - distinct / T)`` if attempt k, from 0, won; else no gamma^k.

    In place of the trained reward. T attempts, of which ``distinct`` differ in their actions.
    """

    gamma: float = number(0, 1)
    lam: float = number(0)

    conflicts = (_AGAIN, FIRST)
    card = Card(
        paper="2507.14295",
        source="code",
        needs="`rollout_form=attempts`; no transform before it",
        ours="attempts are equal if their actions are (there answers)",
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns, count = view.episode.turns, len(view.episode.plays)
        actions = [tuple(turn.action for turn in turns if turn.attempt == number) for number in range(count)]
        paid = self.gamma ** (count - 1) * view.episode.won - self.lam * (1 - len({*actions}) / count)
        return view.only_last(paid)


@dataclass(kw_only=True)
class Improvement(Method):
    """Pays won_1 at the first attempt's end, ``won_2 + alpha (won_2 - won_1)`` at the second's.

    In place of the trained reward.
    """

    alpha: float = number(0)

    conflicts = (
        _AGAIN,
        FIRST,
        Conflict(
            ("rollout_form.attempts.attempts", "rollout_form.attempts.until_won"),
            lambda _, plays, until: plays not in (2, None) or bool(until),
            "it compares the second attempt with the first, won or not",
            "rollout_form.attempts.attempts=2 rollout_form.attempts.until_won=false",
        ),
        Conflict(
            ("credit",),
            lambda _, names: "attempts" not in names,
            "summed over the episode it would pay for losing the first attempt",
            "credit=[attempts]",
        ),
    )
    card = Card(
        paper="2409.12917",
        source="a note",
        result="mathematics, from the first to the second attempt: +15.6",
        needs="`rollout_form=attempts` of two attempts, `credit=[attempts]`; no transform before it",
        ours="stage II alone: the KL of stage I was not found; how theirs is credited was not found",
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns, won = view.episode.turns, [float(play == WON) for play in view.episode.plays]
        paid = [won[0], *(now + self.alpha * (now - won[0]) for now in won[1:])]
        last = {turn.attempt: number for number, turn in enumerate(turns)}
        return {TRAINED: [paid[turn.attempt] * (last[turn.attempt] == n) for n, turn in enumerate(turns)]}
