"""One page from run folders: what was measured beside what was published, what held, and what it cost.

    python -m experiments.report RUN_OR_SWEEP... [--out FOLDER | --text]
    python -m experiments.report runs/sweeps/table10_algorithms-laptop
    python -m experiments.report runs/NAME runs/OTHER --out /tmp/two

RUN_OR_SWEEP  folder of a sweep, a grid or a run, or a folder of runs, which makes a report for each group of runs that played the
              same test games. Runs may be unfinished, or only W&B's offline logs
--out FOLDER  where report.html and report.md go (of several reports, each in a folder there); else beside the runs
--text        print the table and the comparisons here instead

docs/report.md explains the tables, intervals and verdicts."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from envs.utils.files import write_whole
from envs.utils.names import nearest
from experiments.report.gather import ReportError, Subject, subjects
from records.process.exit_codes import command, say

HTML, MARKDOWN = "report.html", "report.md"
TEXT = "--text"


@command(__doc__, refused=(OSError,), resumes=False)
def main(given: list[str]) -> int:
    paths, out = _split([word for word in given if word != TEXT])
    found = subjects(paths)
    for line in dict.fromkeys(line for subject in found for line in subject.left_out):
        say(f"note: left out: {line}")
    for subject in found:
        print(_text(subject) if TEXT in given else write(subject, _place(subject, out, len(found))), flush=True)
    return 0


def _place(subject: Subject, out: Path | None, reports: int) -> Path:
    if out is None:
        return subject.folder
    return out / subject.folder.name if reports > 1 else out


def _text(subject: Subject) -> str:
    from experiments.report.terminal import text  # scipy: not before it is needed

    return text(subject)


def _split(given: Sequence[str]) -> tuple[list[Path], Path | None]:
    """Paths, and where the report goes.

    Raises:
        ReportError: no path, or another flag.
    """
    words, out = [], None
    rest = iter(given)
    for word in rest:
        if word == "--out" or word.startswith("--out="):
            out = Path(word.removeprefix("--out=") if "=" in word else next(rest, "")).expanduser()
            if out == Path():
                raise ReportError("--out needs a folder: --out FOLDER")
        elif word.startswith("-"):
            near = nearest(word, ("--out", TEXT, "--help"), cutoff=0.5)
            known = f"did you mean {near}?" if near else f"there are --out FOLDER and {TEXT}"
            raise ReportError(f"unknown flag {word}; {known}")
        else:
            words.append(Path(word))
    if not words:
        raise ReportError("a report on what? name a run or a sweep: python -m experiments.report runs/sweeps/NAME")
    return words, out


def write(subject: Subject, folder: Path) -> str:
    """Write both forms of the report, each whole or not at all; returns a line on what was written."""
    from experiments.report.contents import contents  # scipy and matplotlib: not before they are needed
    from experiments.report.page import html, markdown

    start = time.perf_counter()
    found = contents(subject)
    write_whole(folder / HTML, html(found, folder))
    write_whole(folder / MARKDOWN, markdown(found, folder))
    size = (folder / HTML).stat().st_size / 1e6
    states = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    runs = f"{len(found.runs)} run{'s' * (len(found.runs) != 1)}"
    return f"{folder / HTML} ({size:.1f} MB, {time.perf_counter() - start:.1f} s): {runs}, {states}"


if __name__ == "__main__":
    sys.exit(main())
