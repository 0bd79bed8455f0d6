"""Write episodes into a page that needs nothing but a browser.

    python -m experiments.viewer FILE_OR_RUN... [output=PAGE.html] [limit=5000]
    python -m experiments.viewer runs/NAME
    python -m experiments.viewer runs/NAME/rl/episodes/00002*.jsonl output=late.html

FILE_OR_RUN a run folder, a sweep's folder (runs/sweeps/NAME-SCALE), or a folder or file of episodes
            (rl/episodes/STEP.jsonl, evaluation/**/NAME.jsonl)
output=     the page; by default trajectories.html, in the run folder if one run is named, else in
            the current folder
limit=      episodes in the page; if a run has more, training steps are left out evenly

docs/viewer.md shows what the page can do."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.viewer.page import LIMIT, page
from turngrid.experiments.viewer.sources import TRAINING, EpisodeFile, episode_files
from turngrid.records.process.exit_codes import Refusal, command, own_words
from turngrid.records.provenance import ATTEMPTS
from turngrid.rollouts.store import DamagedEpisodes

PAGE = "trajectories.html"


@dataclass
class Options:
    output: str = ""
    limit: int = LIMIT


@command(__doc__, refused=(OSError, DamagedEpisodes), resumes=False)
def main(given: list[str]) -> int:
    options = Options()
    words, others = own_words(given, options)
    if not words:
        raise Refusal("no run or file of episodes is named; use python -m experiments.viewer runs/NAME")
    if others:
        raise Refusal(f"unknown key {others[0].partition('=')[0]}; use {' or '.join(vars(options))}")
    print(_write([Path(word) for word in words], options))
    return 0


def _write(paths: Sequence[Path], options: Options) -> str:
    start = time.perf_counter()
    files, note = thin(episode_files(paths), options.limit)
    shown = (item for file in files for item in file.shown())
    names = list(dict.fromkeys(file.run.name if file.run else file.path.name for file in files))
    title = f"{names[0]} and {len(names) - 1} more" if len(names) > 3 else ", ".join(names)
    text = page(shown, title, limit=options.limit, note=note)
    # the report of a sweep links to the page in the run's folder
    alone = len(paths) == 1 and (paths[0] / ATTEMPTS).exists()
    output = Path(options.output).expanduser() if options.output else (paths[0] if alone else Path()) / PAGE
    write_whole(output, text)
    size = f"{min(options.limit, _count(files)):,} episodes, {len(text) / 1e6:.1f} MB"
    return f"{note}\n" * bool(note) + f"{output}: {size}, {time.perf_counter() - start:.1f} s"


def thin(files: Sequence[EpisodeFile], limit: int) -> tuple[list[EpisodeFile], str]:
    """Choose about ``limit`` episodes, and return a line on what was left out, or "".

    Training steps are kept whole and evenly spaced, since an advantage is read beside the other
    samples of its group. Of each other file the same number of first episodes is kept.
    """
    if _count(files) <= limit:
        return list(files), ""
    steps = [file for file in files if file.stage == TRAINING]
    others = [file for file in files if file.stage != TRAINING]
    share = max(1, (limit // 2 if steps else limit) // max(1, len(others)))
    others = [replace(file, first=share) for file in others]
    every = -(-_count(steps) // max(1, limit - _count(others)))
    kept = steps[::-1][:: max(1, every)][::-1]
    note = f"the first {share:,} episodes of a file of demonstrations or evaluations, every {every}. training step"
    return [*others, *kept], f"a page of {limit:,} episodes: {note}"


def _count(files: Sequence[EpisodeFile]) -> int:
    return sum(file.count for file in files)


if __name__ == "__main__":
    sys.exit(main())
