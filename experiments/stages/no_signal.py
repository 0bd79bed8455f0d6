"""RL steps from which there is little or nothing to learn, since all that is compared scored alike: read off a run's metrics, so
that a resume knows of those before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from algorithms.chosen import algorithm
from config import asynchronous

SAMPLING = "dynamic_sampling"  # the filter that samples other prompts

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
        told = (SHARE,) if self.of_groups else (LOW, HIGH)
        for line in lines:
            if not all(name in line for name in told):
                continue
            if line[SHARE] == 1 if self.of_groups else line[LOW] == line[HIGH]:
                streaks[-1].append(line["step"])
            else:
                streaks.append([])
        return streaks


def _advice(config: DictConfig, of_groups: bool) -> str:
    words = ["an easier env.task"]
    if of_groups:
        words.append("a larger actor_rollout_ref.rollout.n")
    words += ["more demonstrations for SFT (budget.sft_share)", "another reward"]
    taken, mode = SAMPLING in (config.get("filter") or {}), asynchronous.mode(config)
    if of_groups and not taken and mode == asynchronous.SYNC and config.budget.count == "games":
        words.append(f"filter=[{SAMPLING}]")  # elsewhere ``config.checks.methods`` refuses it
    return f"{', '.join(words[:-1])} or {words[-1]}"
