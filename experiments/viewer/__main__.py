"""Episodes in a page that needs nothing but a browser.

    python -m experiments.viewer FILE_OR_RUN... [output=PAGE.html] [limit=5000] [title=TEXT]
    python -m experiments.viewer runs/NAME
    python -m experiments.viewer runs/NAME/evaluation/rl.jsonl runs/NAME/rl/episodes/00002*.jsonl output=late.html

FILE_OR_RUN a run folder, a sweep's folder (runs/sweeps/NAME-SCALE), or a folder or file of episodes
            (rl/episodes/STEP.jsonl, evaluation/**/NAME.jsonl)
output=     the page; if not said, trajectories.html, in the run folder where one is named and nothing else, or else here
limit=      episodes in the page; of a run with more, training steps are left out, evenly
title=      of the page; the runs' names, if not said

docs/viewer.md shows what the page can do."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs.utils.files import write_whole
from envs.utils.names import meant
from experiments.viewer.page import LIMIT, page
from experiments.viewer.sources import RUN_MARK, TRAINING, EpisodeFile, SourceError, episode_files
from records.process.exit_codes import command, own_words

PAGE = "trajectories.html"


@dataclass
class Options:
    output: str = ""
    limit: int = LIMIT
    title: str = ""


@command(__doc__, refused=(OSError,), resumes=False)
def main(given: list[str]) -> int:
    print(_write(*split(given)))
    return 0


def split(arguments: Sequence[str]) -> tuple[list[Path], Options]:
    """Paths and options.

    Raises:
        SourceError: no path, a flag, or an option that there is not.
    """
    options = Options()
    words, others = own_words(arguments, options, SourceError)
    if not words:
        raise SourceError(
            "whose episodes? name a run folder or a file of episodes: python -m experiments.viewer runs/NAME"
        )
    if others:
        key = others[0].partition("=")[0]
        raise SourceError(f"unknown key {key}{meant(key, vars(options)) or '; there are: ' + ', '.join(vars(options))}")
    return [Path(word) for word in words], options


def _write(paths: Sequence[Path], options: Options) -> str:
    start = time.perf_counter()
    files, note = thin(episode_files(paths), options.limit)
    shown = (item for file in files for item in file.shown())
    names = list(dict.fromkeys(file.run.name if file.run else file.path.name for file in files))
    title = f"{names[0]} and {len(names) - 1} more" if len(names) > 3 else ", ".join(names)
    text = page(shown, options.title or title, limit=options.limit, note=note)
    # a run's page lies in its folder, where the report of its sweep links to it
    alone = len(paths) == 1 and (paths[0] / RUN_MARK).exists()
    output = Path(options.output).expanduser() if options.output else (paths[0] if alone else Path()) / PAGE
    write_whole(output, text)
    episodes = sum(file.count for file in files)
    lines = [note] if note else []
    lines.append(f"{output}: {episodes:,} episodes, {len(text) / 1e6:.1f} MB, {time.perf_counter() - start:.1f} s")
    return "\n".join(lines)


def thin(files: Sequence[EpisodeFile], limit: int) -> tuple[list[EpisodeFile], str]:
    """What of too many episodes gets into a page, in order, and a line that says what was left out (empty: nothing): whole training
    steps, evenly over the run, since an advantage is read beside the other samples of its group, and the first of everything
    else. What is not training gets half of the page at least, if it needs that much; at most ``limit`` episodes come out."""
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


if __name__ == "__main__":
    sys.exit(main())
