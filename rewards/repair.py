"""Rewards of repaired repositories: one number on the last turn, from the tests that pass.

The last turn's ``info["tests"]`` has the counts (``turngrid.envs.repair.score.Counts``). An episode
that was never graded gets 0.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from turngrid.envs.repair.score import Counts
from turngrid.rewards.reward import ScoredTurn


class _LastTurn:
    """Pays ``value`` of the counts, and of having won, on the last turn."""

    name: ClassVar[str]
    value: ClassVar[Callable[[Counts, bool], float]]

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        counts = turns[-1].info.get("tests") if turns else None
        last = self.value(Counts(**counts), won) if counts else 0.0
        return [0.0] * (len(turns) - 1) + [last] * bool(turns)


class Binary(_LastTurn):
    """1 if every FAIL_TO_PASS and PASS_TO_PASS test passes and the test run completed."""

    name = "binary"
    value = staticmethod(lambda counts, won: float(won and counts.resolved))


class Ratio(_LastTurn):
    """Share of FAIL_TO_PASS tests repaired less share of PASS_TO_PASS tests broken, at least 0."""

    name = "ratio"
    value = staticmethod(lambda counts, won: counts.ratio)


class PassRatioReference(_LastTurn):
    """The formula of the study's released code, for comparison: passing tests / all tests.

    An untouched repository gets PASS_TO_PASS / all, nearly 1 if most tests never failed.
    """

    name = "pass_ratio_reference"
    value = staticmethod(lambda counts, won: counts.pass_ratio)
