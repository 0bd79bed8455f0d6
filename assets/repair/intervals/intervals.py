"""Sets of whole numbers kept as half-open intervals, such as booked hours or free blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

Interval = tuple[int, int]


def normalise(intervals: Iterable[Interval]) -> list[Interval]:
    """Sorted intervals that neither overlap nor touch; empty ones are dropped."""
    merged: list[Interval] = []
    for start, stop in sorted(intervals):
        if start >= stop:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


class IntervalSet:
    """A set of whole numbers; every method that changes something returns a new set."""

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._parts = tuple(normalise(intervals))

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._parts)

    def __len__(self) -> int:
        """How many numbers are in the set."""
        return sum(stop - start for start, stop in self._parts)

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return f"IntervalSet({list(self._parts)})"

    def __contains__(self, number: int) -> bool:
        """Found by bisection: the last part that starts at or before the number."""
        low, high = 0, len(self._parts)
        while low < high:
            middle = (low + high) // 2
            if self._parts[middle][0] <= number:
                low = middle + 1
            else:
                high = middle
        return low > 0 and number < self._parts[low - 1][1]

    def union(self, other: IntervalSet) -> IntervalSet:
        """Numbers that are in either set."""
        return IntervalSet([*self, *other])

    def intersection(self, other: IntervalSet) -> IntervalSet:
        """Numbers that are in both sets."""
        mine, theirs = self._parts, other._parts
        common = []
        first = second = 0
        while first < len(mine) and second < len(theirs):
            start = max(mine[first][0], theirs[second][0])
            stop = min(mine[first][1], theirs[second][1])
            if start < stop:
                common.append((start, stop))
            if mine[first][1] < theirs[second][1]:
                first += 1
            else:
                second += 1
        return IntervalSet(common)

    def difference(self, other: IntervalSet) -> IntervalSet:
        """Numbers of this set that are not in the other one."""
        left = []
        for start, stop in self:
            for cut_start, cut_stop in other:
                if cut_stop <= start or stop <= cut_start:
                    continue
                if start < cut_start:
                    left.append((start, cut_start))
                start = cut_stop
            left.append((start, stop))
        return IntervalSet(left)

    def gaps(self) -> IntervalSet:
        """What is missing between the first and the last number of the set."""
        between = []
        for (_, stop), (start, _) in pairwise(self._parts):
            between.append((stop, start))
        return IntervalSet(between)

    def shift(self, by: int) -> IntervalSet:
        """Every number moved by the same amount."""
        return IntervalSet((start + by, stop + by) for start, stop in self)

    def first_fit(self, length: int, earliest: int = 0) -> int | None:
        """The smallest start, not before ``earliest``, of ``length`` numbers in a row; None where there are none."""
        for start, stop in self:
            begin = max(start, earliest)
            if stop - begin >= length:
                return begin
        return None


def parse(text: str) -> IntervalSet:
    """Read ranges as people write them, both ends included: ``1-3, 7, 10-12``."""
    intervals = []
    for part in text.split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        start = int(first)
        end = int(last) if dash else start
        if end < start:
            raise ValueError(f"{part.strip()} ends before it starts")
        intervals.append((start, end + 1))
    return IntervalSet(intervals)


def render(numbers: IntervalSet) -> str:
    """The text that ``parse`` reads."""
    parts = []
    for start, stop in numbers:
        parts.append(str(start) if stop - start == 1 else f"{start}-{stop - 1}")
    return ", ".join(parts)
