"""Make one page from run folders: results beside published ones, comparisons, charts and costs.

    python -m experiments.report RUN_OR_SWEEP... [--out FOLDER | --text]
    python -m experiments.report runs/sweeps/table10_algorithms-laptop
    python -m experiments.report runs/NAME runs/OTHER --out /tmp/two

RUN_OR_SWEEP  folder of a sweep, a grid or a run; or a folder of runs, which gets a report for each
              group of runs with the same test games. Runs may be unfinished
--out FOLDER  where report.html and report.md go, by default beside the runs; several reports get a
              folder each there
--text        print the table and the comparisons here instead

docs/report.md explains the tables, intervals and verdicts."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.report.gather import Subject, subjects
from turngrid.records.process.exit_codes import Parser, command, say

HTML, MARKDOWN = "report.html", "report.md"

USAGE = "python -m experiments.report RUN_OR_SWEEP... [--out FOLDER | --text]"


@command(__doc__, refused=(OSError,), resumes=False)
def main(given: list[str]) -> int:
    parser = Parser(usage=USAGE, add_help=False, allow_abbrev=False)
    parser.add_argument("paths", metavar="RUN_OR_SWEEP", nargs="+", type=Path)
    parser.add_argument("--out", metavar="FOLDER", type=Path)
    parser.add_argument("--text", action="store_true")
    asked = parser.parse_intermixed_args(given)
    chosen = subjects(asked.paths)
    for line in dict.fromkeys(line for subject in chosen for line in subject.left_out):
        say(f"note: left out: {line}")
    for subject in chosen:
        print(_text(subject) if asked.text else write(subject, _place(subject, asked.out, len(chosen))), flush=True)
    return 0


def _place(subject: Subject, out: Path | None, reports: int) -> Path:
    if out is None:
        return subject.folder
    return out.expanduser() / subject.folder.name if reports > 1 else out.expanduser()


def _text(subject: Subject) -> str:
    from turngrid.experiments.report.terminal import text  # imports scipy, so only when needed

    return text(subject)


def write(subject: Subject, folder: Path) -> str:
    """Write the report as HTML and as Markdown, atomically; return a line on the page."""
    from turngrid.experiments.report.contents import Contents  # imports scipy, so only when needed
    from turngrid.experiments.report.page import html, markdown

    start = time.perf_counter()
    report = Contents(subject)
    write_whole(folder / HTML, html(report, folder))
    write_whole(folder / MARKDOWN, markdown(report, folder))
    size = (folder / HTML).stat().st_size / 1e6
    states = ", ".join(f"{count} {state}" for state, count in report.counts.items())
    runs = f"{len(report.runs)} run{'s' * (len(report.runs) != 1)}"
    return f"{folder / HTML} ({size:.1f} MB, {time.perf_counter() - start:.1f} s): {runs}, {states}"


if __name__ == "__main__":
    sys.exit(main())
