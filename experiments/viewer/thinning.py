"""What of too many episodes gets into a page: all that is not training, then training steps, evenly over the run."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.viewer.sources import TRAINING, EpisodeFile


def thin(files: Sequence[EpisodeFile], limit: int) -> tuple[list[EpisodeFile], str]:
    """The files to show, in order, and a line that says what was left out (empty: nothing). Steps stay whole, since an
    advantage is read beside the other samples of its group; so a page may end up with fewer than ``limit`` episodes."""
    steps = [file for file in files if file.stage == TRAINING]
    room = limit - sum(file.count for file in files if file.stage != TRAINING)
    kept = _evenly(steps, room)
    if len(kept) == len(steps):
        return list(files), ""
    chosen = set(kept)
    note = (
        f"{len(kept)} of {len(steps)} training steps, evenly over the run: a page of {limit:,} episodes holds no more"
    )
    return [file for file in files if file.stage != TRAINING or file in chosen], note


def _evenly(steps: Sequence[EpisodeFile], room: int) -> list[EpisodeFile]:
    """As many as fit, the last step among them."""
    for count in range(len(steps), 0, -1):
        kept = [steps[-1 - (place * len(steps)) // count] for place in range(count)]
        if sum(file.count for file in kept) <= room:
            return kept[::-1]
    return []
