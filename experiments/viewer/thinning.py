"""What of too many episodes gets into a page: whole training steps, evenly over the run, and the first of everything else.

An advantage is read beside the other samples of its group, so steps stay whole; the first games of an evaluation are the
same for every model that played it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from experiments.viewer.sources import TRAINING, EpisodeFile


def thin(files: Sequence[EpisodeFile], limit: int) -> tuple[list[EpisodeFile], str]:
    """The files to show, in order, and a line that says what was left out (empty: nothing). What is not training gets half
    of the page at least, if it needs that much; at most ``limit`` episodes come out."""
    steps = [file for file in files if file.stage == TRAINING]
    others = [file for file in files if file.stage != TRAINING]
    room = max(limit // 2, limit - _count(steps))
    share = room // len(others) if _count(others) > room else None
    others = [replace(file, first=share) for file in others] if share is not None else others
    kept = _evenly(steps, limit - _count(others))
    notes = [
        f"the first {share:,} of each file of demonstrations or evaluations" if share is not None else "",
        f"{len(kept)} of {len(steps)} training steps, evenly chosen" if len(kept) < len(steps) else "",
        f"the first {kept[0].first:,} episodes of a step" if kept and kept[0].first is not None else "",
    ]
    told = "; ".join(note for note in notes if note)
    return [*others, *kept], f"{told}: a page of {limit:,} episodes holds no more" if told else ""


def _count(files: Sequence[EpisodeFile]) -> int:
    return sum(file.count for file in files)


def _evenly(steps: Sequence[EpisodeFile], room: int) -> list[EpisodeFile]:
    """As many as fit, the last step among them, which is cut if not even one fits."""
    for count in range(len(steps), 0, -1):
        kept = [steps[-1 - (place * len(steps)) // count] for place in range(count)]
        if _count(kept) <= room:
            return kept[::-1]
    return [replace(steps[-1], first=room)] if steps and room > 0 else []
