"""Rewards of repaired repositories: one number on the last turn, from the tests that pass.

The last turn's ``info["tests"]`` has the counts (``turngrid.envs.repair.score.Counts``). An episode
that was never graded gets 0.
"""

import abc
from collections.abc import Sequence
from typing import ClassVar

from turngrid.envs.repair.score import Counts
from turngrid.rewards.reward import ScoredTurn, on_last


class _LastTurn(abc.ABC):
    name: ClassVar[str]

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        counts = turns[-1].info.get("tests") if turns else None
        return on_last(turns, self._value(Counts(**counts), won) if counts else 0.0)

    @abc.abstractmethod
    def _value(self, counts: Counts, won: bool) -> float: ...


class Binary(_LastTurn):
    """1 if every FAIL_TO_PASS and PASS_TO_PASS test passes and the test run completed."""

    name = "binary"

    def _value(self, counts: Counts, won: bool) -> float:
        return float(won and counts.resolved)


class Ratio(_LastTurn):
    """Share of FAIL_TO_PASS tests repaired less share of PASS_TO_PASS tests broken, at least 0."""

    name = "ratio"

    def _value(self, counts: Counts, won: bool) -> float:
        return counts.ratio


class PassRatioReference(_LastTurn):
    """The formula of the study's released code, for comparison: passing tests / all tests.

    An untouched repository gets PASS_TO_PASS / all, nearly 1 if most tests never failed.
    """

    name = "pass_ratio_reference"

    def _value(self, counts: Counts, won: bool) -> float:
        return counts.pass_ratio
