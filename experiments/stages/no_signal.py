"""RL steps without signal: all compared episodes had the same reward, so there is little to learn.

The steps are read from the run's metrics, so those before a resume count too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from turngrid.config import asynchronous
from turngrid.tasks.run import Run

SAMPLING = "dynamic_sampling"  # the filter that samples other prompts

IN_A_ROW = 3  # length of a streak that is reported
SHARE, LOW, HIGH = "credit/groups_without_signal", "reward/trained/min", "reward/trained/max"
Line = Mapping[str, Any]


@dataclass(frozen=True)
class NoSignal:
    """Detection and reporting of steps without signal.

    Attributes:
        of_groups: whether the algorithm compares the samples of a prompt; if not, it compares all
            episodes of a step.
        advice: what to try.
    """

    of_groups: bool
    advice: str

    @classmethod
    def of(cls, run: Run) -> NoSignal:
        return cls(run.algorithm.needs_group, _advice(run))

    def now(self, lines: Iterable[Line]) -> str:
        """Describe the last steps in a few words; "" if there is signal."""
        last = self._streaks(lines)[-1]
        return f"all {self._compared} alike for {len(last)} steps" if len(last) >= IN_A_ROW else ""

    def note(self, lines: Iterable[Line]) -> str:
        """Report the longest streak without signal and what to try; "" without a long one."""
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
        """Return the streaks of steps without signal; the last one is empty if the last step had
        signal.

        Lines without these metrics are skipped, such as that of a validation before the first step.
        """
        streaks: list[list[int]] = [[]]
        named = (SHARE,) if self.of_groups else (LOW, HIGH)
        for line in lines:
            if not all(name in line for name in named):
                continue
            if line[SHARE] == 1 if self.of_groups else line[LOW] == line[HIGH]:
                streaks[-1].append(line["step"])
            else:
                streaks.append([])
        return streaks


def _advice(run: Run) -> str:
    config, of_groups = run.config, run.algorithm.needs_group
    words = ["an easier env.task"]
    if of_groups:
        words.append("a larger actor_rollout_ref.rollout.n")
    words += ["more demonstrations for SFT (budget.sft_share)", "another reward"]
    chosen, mode = SAMPLING in (config.get("filter") or {}), asynchronous.mode(config)
    if of_groups and not chosen and mode == asynchronous.SYNC and config.budget.count == "games":
        words.append(f"filter=[{SAMPLING}]")  # turngrid.config.checks.methods refuses it elsewhere
    return f"{', '.join(words[:-1])} or {words[-1]}"
