"""Verdicts on the claims that a sweep declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from experiments.report.contrast import Contrast, Part, TooFewSeeds, contrast
from experiments.report.runs import Run
from experiments.report.selection import Unfilled, choice_of
from experiments.sweep.definition import Selector, Takeaway, flattened
from experiments.sweep.record import Sweep


class Word(StrEnum):
    """What the data say of a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_ENOUGH = "not enough data"


@dataclass(frozen=True)
class Verdict:
    """``why`` is a sentence; ``contrast`` is None where the claim's settings have no data."""

    claim: str
    compared: str
    word: Word
    why: str
    contrast: Contrast | None


def verdicts(sweep: Sweep, runs: Sequence[Run]) -> list[Verdict]:
    """One a declared takeaway, in their order."""
    return [_verdict(takeaway, runs) for takeaway in sweep.takeaways]


def _verdict(takeaway: Takeaway, runs: Sequence[Run]) -> Verdict:
    compared = f"{_words(takeaway.higher)} against {_words(takeaway.lower)}"
    try:
        found = contrast(runs, _parts(takeaway))
    except TooFewSeeds as error:
        return Verdict(takeaway.claim, compared, Word.NOT_ENOUGH, f"{error}.", None)
    except Unfilled as error:
        return Verdict(takeaway.claim, compared, Word.NOT_ENOUGH, f"a side has no result: {error}.", None)
    word, why = judged(found)
    return Verdict(takeaway.claim, compared, word, why, found)


def judged(found: Contrast) -> tuple[Word, str]:
    """``holds`` where the interval is wholly above zero, ``does not hold`` where it is wholly below."""
    left = f" {len(found.left_out)} comparison(s) left out: {'; '.join(found.left_out)}." if found.left_out else ""
    if found.interval.low > 0:
        return Word.HOLDS, f"the 95 % interval lies wholly above zero.{left}"
    if found.interval.high < 0:
        return Word.DOES_NOT_HOLD, f"the 95 % interval lies wholly below zero: it is the other way round.{left}"
    return Word.NOT_ENOUGH, f"the 95 % interval includes zero, so it could be either way.{left}"


def _parts(takeaway: Takeaway) -> list[Part]:
    sides = [(1, takeaway.higher), (-1, takeaway.lower)]
    return [
        (sign if place == 0 else -sign, choice_of(selector))
        for sign, side in sides
        for place, selector in enumerate(flattened(side))
    ]


def _words(side: dict[str, str | Selector]) -> str:
    own, *less = [" ".join(f"{key}={value}" for key, value in selector.items()) for selector in flattened(side)]
    return f"({own}) minus ({less[0]})" if less else f"({own})"
