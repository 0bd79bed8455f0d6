"""Days that come again: every few days, on weekdays, on a day of the month, once a year."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
UNITS = ("day", "week", "month", "year")


class RuleError(ValueError):
    """A rule that says nothing useful."""


def add_months(day: date, months: int, keep: int | None = None) -> date:
    """The same day so many months later, or the last one of a month that is too short.

    ``keep`` is the day of the month that is aimed at, where ``day`` itself was cut short before.
    """
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(keep or day.day, last))


def nth_weekday(year: int, month: int, weekday: int, nth: int) -> date | None:
    """The first (1), second, ... or last (-1) Monday (0) to Sunday (6) of a month; None where there is none."""
    first, days = calendar.monthrange(year, month)
    if nth > 0:
        number = 1 + (weekday - first) % 7 + 7 * (nth - 1)
    else:
        last = (first + days - 1) % 7
        number = days - (last - weekday) % 7 + 7 * (nth + 1)
    return date(year, month, number) if 1 <= number <= days else None


def next_workday(day: date, holidays: frozenset[date] = frozenset()) -> date:
    """The day itself if it is neither a weekend nor a holiday, else the first such day after it."""
    while day.weekday() >= 5 or day in holidays:
        day += timedelta(days=1)
    return day


def workdays_between(start: date, end: date, holidays: frozenset[date] = frozenset()) -> int:
    """Workdays from ``start`` to ``end``, both included."""
    count = 0
    day = start
    while day <= end:
        if day.weekday() < 5 and day not in holidays:
            count += 1
        day += timedelta(days=1)
    return count


@dataclass(frozen=True)
class Rule:
    """Every ``every`` units from ``start`` on, up to and with ``until``; ``weekdays`` (0 is Monday) narrow weeks."""

    start: date
    unit: str
    every: int = 1
    weekdays: tuple[int, ...] = ()
    until: date | None = None

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise RuleError(f"unknown unit {self.unit!r}")
        if self.every < 1:
            raise RuleError("a rule steps forward")
        if self.weekdays and self.unit != "week":
            raise RuleError("weekdays belong to rules by the week")

    def days(self) -> Iterator[date]:
        """All days of the rule in order, without end unless it has an ``until``."""
        for day in self._endless():
            if self.until is not None and day > self.until:
                return
            yield day

    def between(self, first: date, last: date) -> list[date]:
        """The days of the rule from ``first`` to ``last``, both included."""
        found = []
        for day in self.days():
            if day > last:
                break
            if day >= first:
                found.append(day)
        return found

    def after(self, day: date) -> date | None:
        """The next day of the rule that is later than ``day``."""
        for candidate in self.days():
            if candidate > day:
                return candidate
        return None

    def _endless(self) -> Iterator[date]:
        if self.weekdays:
            yield from self._weekly()
            return
        count = 0
        while True:
            yield self._step(count * self.every)
            count += 1

    def _step(self, count: int) -> date:
        if self.unit == "day":
            return self.start + timedelta(days=count)
        if self.unit == "week":
            return self.start + timedelta(weeks=count)
        if self.unit == "month":
            return add_months(self.start, count)
        return add_months(self.start, 12 * count)

    def _weekly(self) -> Iterator[date]:
        """The chosen weekdays of every so many weeks, counted in weeks from Monday."""
        monday = self.start - timedelta(days=self.start.weekday())
        while True:
            for weekday in sorted(set(self.weekdays)):
                day = monday + timedelta(days=weekday)
                if day >= self.start:
                    yield day
            monday += timedelta(weeks=self.every)


def parse_rule(text: str, start: date) -> Rule:
    """Read ``daily``, ``every 3 days``, ``every 2 weeks on mon, fri`` or ``every month until 2024-06-30``."""
    words = text.lower().replace(",", " ").split()
    until = None
    if "until" in words:
        place = words.index("until")
        until = date.fromisoformat(words[place + 1])
        words = words[:place]
    weekdays: tuple[int, ...] = ()
    if "on" in words:
        place = words.index("on")
        weekdays = tuple(_weekday(word) for word in words[place + 1 :])
        words = words[:place]
    every, unit = _step_of(words)
    return Rule(start, unit, every, weekdays, until)


def _step_of(words: list[str]) -> tuple[int, str]:
    short = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}
    if len(words) == 1 and words[0] in short:
        return 1, short[words[0]]
    if len(words) == 2 and words[0] == "every":
        return 1, words[1]
    if len(words) == 3 and words[0] == "every" and words[1].isdigit():
        return int(words[1]), words[2].removesuffix("s")
    raise RuleError(f"cannot read {' '.join(words)!r}")


def _weekday(word: str) -> int:
    if word[:3] not in WEEKDAYS:
        raise RuleError(f"unknown weekday {word!r}")
    return WEEKDAYS.index(word[:3])
