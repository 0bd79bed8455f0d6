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
from dataclasses import dataclass
from pathlib import Path

from envs.names import nearest
from envs.whole import write_whole
from experiments.viewer.page import LIMIT, page
from experiments.viewer.sources import RUN_MARK, SourceError, episode_files
from experiments.viewer.thinning import thin
from records.process.exit_codes import answered, own_words

PAGE = "trajectories.html"


@dataclass
class Options:
    output: str = ""
    limit: int = LIMIT
    title: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every foreseen error is one line on stderr."""
    return answered(arguments, __doc__, _run, refused=(OSError,), resumes=False)


def _run(given: Sequence[str]) -> int:
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
        key, names = others[0].partition("=")[0], list(vars(options))
        near = nearest(key, names, cutoff=0.5)
        raise SourceError(
            f"unknown option {key}; {f'did you mean {near}?' if near else 'there are: ' + ', '.join(names)}"
        )
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


if __name__ == "__main__":
    sys.exit(main())
