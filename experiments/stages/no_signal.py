"""RL steps from which there is little or nothing to learn, since all that is compared scored alike: read off a run's metrics, so
that a resume knows of those before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from algorithms.chosen import algorithm
from config import asynchronous
from config.method_settings import SAMPLING

IN_A_ROW = 3  # steps after which it is told
SHARE, LOW, HIGH = "credit/groups_without_signal", "reward/trained/min", "reward/trained/max"
Line = Mapping[str, Any]


@dataclass(frozen=True)
class NoSignal:
    """What to say of such steps.

    Attributes:
        of_groups: the algorithm compares the samples of a prompt; else what counts is whether all episodes of a step
            scored alike.
        advice: what to try, in words.
    """

    of_groups: bool
    advice: str

    @classmethod
    def of(cls, config: DictConfig) -> NoSignal:
        of_groups = algorithm(config.algo.name).needs_group
        return cls(of_groups, _advice(config, of_groups))

    def now(self, lines: Iterable[Line]) -> str:
        """For the bar: what holds up to the last step, in a few words; empty while there is signal."""
        last = self._streaks(lines)[-1]
        return f"all {self._compared} alike for {len(last)} steps" if len(last) >= IN_A_ROW else ""

    def note(self, lines: Iterable[Line]) -> str:
        """The longest row of such steps and what to try, in one line; empty where no row is long enough."""
        longest = max(self._streaks(lines), key=len)
        if len(longest) < IN_A_ROW:
            return ""
        return (
            f"in steps {longest[0]} to {longest[-1]} all {self._compared} scored alike, so RL had little or nothing to "
            f"learn from; try {self.advice}"
        )

    @property
    def _compared(self) -> str:
        return "samples of each prompt" if self.of_groups else "episodes of a step"

    def _streaks(self, lines: Iterable[Line]) -> list[list[int]]:
        """Steps without signal, row by row; the last row is empty where the last step had signal. A line that does not say, such
        as that of a validation before the first step, is passed over."""
        streaks: list[list[int]] = [[]]
        for line in lines:
            flat = self._flat(line)
            if flat:
                streaks[-1].append(line["step"])
            elif flat is False:
                streaks.append([])
        return streaks

    def _flat(self, line: Line) -> bool | None:
        if self.of_groups:
            return line[SHARE] == 1 if SHARE in line else None
        return line[LOW] == line[HIGH] if LOW in line and HIGH in line else None


def _advice(config: DictConfig, of_groups: bool) -> str:
    words = ["an easier env.task"]
    if of_groups:
        words.append("a larger actor_rollout_ref.rollout.n")
    words += ["more demonstrations for SFT (budget.sft_share)", "another reward"]
    if of_groups and _may_sample(config):
        words.append(f"filter=[{SAMPLING}]")
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _may_sample(config: DictConfig) -> bool:
    """Whether dynamic sampling could be added; ``config.checks.methods`` refuses it elsewhere."""
    taken = SAMPLING in (config.get("filter") or {})
    return not taken and asynchronous.mode(config) == asynchronous.SYNC and config.budget.count == "games"
