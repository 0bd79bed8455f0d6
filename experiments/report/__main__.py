"""Make pages from run folders: results beside published ones, comparisons, charts and costs.

    python -m experiments.report RUN_OR_SWEEP... [--out FOLDER]
    python -m experiments.report runs/sweeps/table10_algorithms-laptop
    python -m experiments.report runs/NAME runs/OTHER --out /tmp/two

RUN_OR_SWEEP  folder of a sweep, a grid or a run; or a folder of runs, which gets a report for each
              group of runs with the same test games. Runs may be unfinished
--out FOLDER  where report.html and report.md go, by default beside the runs; several reports get a
              folder each there

Prints it to the terminal too, without charts and episodes. docs/report.md explains the tables,
intervals and verdicts."""

import sys
import time
from collections import Counter
from pathlib import Path

from rich.markdown import Markdown

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.experiments.report.contents import html, markdown
from turngrid.experiments.report.gather import Subject, subjects
from turngrid.experiments.viewer.sources import refuse_twins
from turngrid.records.process.exit_codes import Parser, command, say

HTML, MARKDOWN = "report.html", "report.md"
WIDTH = 160  # of the terminal's text


@command(__doc__, refused=(OSError,), resumes=False)
def main(given: list[str]) -> int:
    usage = "python -m experiments.report RUN_OR_SWEEP... [--out FOLDER]"
    parser = Parser(usage=usage, add_help=False, allow_abbrev=False)
    parser.add_argument("paths", metavar="RUN_OR_SWEEP", nargs="+", type=Path)
    parser.add_argument("--out", metavar="FOLDER", type=Path)
    asked = parser.parse_intermixed_args(given)
    chosen = subjects(asked.paths)
    refuse_twins(subject.folder for subject in chosen if asked.out)
    for line in dict.fromkeys(line for subject in chosen for line in subject.left_out):
        say(f"note: left out: {line}")
    for subject in chosen:
        folder = asked.out.expanduser() if asked.out else subject.folder
        folder = folder / subject.folder.name if asked.out and len(chosen) > 1 else folder
        print(text(subject), flush=True)  # stays if the page cannot be written
        print(f"\n{write(subject, folder)}", flush=True)
    return 0


def write(subject: Subject, folder: Path) -> str:
    """Write the report as HTML and as Markdown, atomically; return a line on the page."""
    start = time.perf_counter()
    write_whole(folder / HTML, html(subject, folder))
    write_whole(folder / MARKDOWN, markdown(subject))
    size = (folder / HTML).stat().st_size / 1e6
    states = ", ".join(f"{count} {state}" for state, count in Counter(run.state for run in subject.runs).items())
    runs = f"{len(subject.runs)} run{'s' * (len(subject.runs) != 1)}"
    return f"{folder / HTML} ({size:.1f} MB, {time.perf_counter() - start:.1f} s): {runs}, {states}"


def text(subject: Subject) -> str:
    """Return the report in Markdown as text for a terminal."""
    return plain_text([Markdown(markdown(subject))], WIDTH).rstrip("\n")


if __name__ == "__main__":
    sys.exit(main())
