"""The contents of a report, and the page as HTML (which needs no network) and as Markdown."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from turngrid.experiments.evaluation.result import State
from turngrid.experiments.evaluation.stage import episodes_file
from turngrid.experiments.evaluation.tables import p_value
from turngrid.experiments.report.cells import table_cells, table_of
from turngrid.experiments.report.charts import curves, draw_panels, metric_panels
from turngrid.experiments.report.comparisons import Word, differences, verdicts
from turngrid.experiments.report.gather import Subject, shared_and_varied
from turngrid.experiments.report.runs import LAST, ReportedRun, grouped, setting_names
from turngrid.experiments.report.samples import BASE
from turngrid.experiments.sweep.definition import SCORE, SUCCESS
from turngrid.experiments.tables import duration
from turngrid.experiments.viewer.page import fragment
from turngrid.experiments.viewer.sources import EpisodeFile, Shown
from turngrid.records.health.alarms import Alarm
from turngrid.records.statistics import WINDOW
from turngrid.rollouts.store import DamagedEpisodes

UNITS = {SUCCESS: "Success in % of games", SCORE: "Score in % of a game's best"}
SHARES_OF_TESTS = (
    "mean shares of tests that pass, and the study does not say of which tests. Ours are the share of failing tests "
    "that were repaired, less the share of passing tests that were broken and not below 0: "
    "0 for a repository that nobody touched"
)
RESOLVED = "mean shares of tests that pass, where ours are shares of instances resolved: two measures, not one"
SIGNS = {Word.HOLDS: "✓", Word.DOES_NOT_HOLD: "✗", Word.NOT_ENOUGH: "?"}
TEMPLATES = str(files("turngrid.experiments.report") / "templates")
VIEWER_NOTE = "A sample: the first wins and losses of each run's last model, and of one base model, on the test games."
EACH = 2  # wins and 2 losses per model
MOST = 200  # episodes in total, about 2 MB of HTML
VIEWER = "trajectories.html"  # a run's own viewer page, as docs/viewer.md makes it


def html(subject: Subject, folder: Path) -> str:
    """Return the page; links to run folders are relative to its own ``folder``."""
    runs, episodes = subject.runs, sampled(subject.runs)
    viewer = Markup(fragment(episodes, note=VIEWER_NOTE) if episodes else "")
    panels = metric_panels(runs)
    drawn = {"curves": curves(runs), "training": draw_panels("training", panels) if panels else ""}
    return _render("page.html.j2", subject, folder, **drawn, window=WINDOW, viewer=viewer, episodes=len(episodes))


def markdown(subject: Subject) -> str:
    """Return the report without charts, episodes and links."""
    return _render("report.md.j2", subject, subject.folder)


def _render(template: str, subject: Subject, folder: Path, **more: Any) -> str:
    """Render a template; in HTML, all text from runs and models is escaped."""
    tools = {
        "percent": lambda share: f"{100 * share:.1f}",
        "x": lambda share: f"{5 + 160 * share:.1f}",
        "points": lambda share: f"{100 * share:+.1f}".replace("-", "−"),
        "p_value": p_value,
        "number": lambda value: f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.1f}",
        "duration": duration,
        "cell": lambda text: " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;"),
        "link": lambda run: link(run.folder, folder),
        "viewer_link": lambda run: link(run.folder / VIEWER, folder),
        "sign": lambda word: SIGNS[word],
    }
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=template.endswith(".html.j2"), **options)
    return environment.get_template(template).render(r=contents(subject), **tools, **more)


def link(path: Path, folder: Path) -> str:
    """Return the path relative to the report's folder, or "" if it is missing."""
    return Path(os.path.relpath(path, folder)).as_posix() if path.exists() else ""


def contents(subject: Subject) -> dict[str, Any]:
    """Return a report's texts and figures; raise Refusal for an unknown published table."""
    sweep, runs, states = subject.sweep, subject.runs, list(State)
    published = table_of(sweep.published) if sweep.published else None
    table = table_cells(runs, sweep.layout, sweep.published)
    judged, by_state = verdicts(sweep, runs), Counter(run.state for run in runs)
    shared, varied = shared_and_varied(runs)
    measures = list(dict.fromkeys(cell.measure for row in table for cell in row)) or [SUCCESS]
    published_cells = [cell for row in table for cell in row if cell.published is not None]
    beside = {cell.measure for cell in published_cells}
    scored = dict.fromkeys(cell.row for cell in published_cells if cell.measure == SCORE) if len(beside) > 1 else ()
    resolved = RESOLVED if beside and "swe" in (sweep.published or "") else ""
    return {
        **vars(subject),
        "table": table,
        "table_name": published.title if published else "",
        "table_note": published.note if published else "",
        "measures": measures,
        "units": "; ".join(UNITS[measure] for measure in measures),
        "other_measure": SHARES_OF_TESTS if SCORE in beside else resolved,
        "other_rows": ", ".join(scored),
        "played": played(runs),
        "verdicts": judged,
        "pairs": [] if sweep.takeaways else differences(runs),
        "alarms": alarms(runs),
        "costs": costs(runs),
        "origins": origins(runs),
        "shared": shared,
        "varied": varied,
        "labels": {
            run.name: f"{name} seed {run.seed}".strip() for run, name in zip(runs, setting_names(runs), strict=True)
        },
        "counts": {state: by_state[state] for state in states if by_state[state]},
        "missing": sorted((run for run in runs if not run.result), key=lambda run: states.index(run.state)),
        "made": time.strftime("%Y-%m-%d %H:%M %Z"),
    }


def played(runs: Sequence[ReportedRun]) -> str:
    """Describe games, samples, temperature and turn limit of the test in one sentence."""
    first = [evaluation for run in runs for evaluation in run.evaluations[:1]]
    ways = {
        f"{one.games} test games, {one.samples_per_game} sample{'s' * (one.samples_per_game > 1)} each, "
        f"temperature {one.temperature:g}"
        for one in first
    }
    turns = sorted({evaluation.max_turns for run in runs for evaluation in run.evaluations})
    return f"{'; or '.join(sorted(ways)[:4])}, at most {' or '.join(map(str, turns))} turns" if ways else ""


def alarms(runs: Sequence[ReportedRun]) -> list[str]:
    """Return a line for each run with alarms or rollbacks."""
    raised = {run.name: [*_in_steps(run.sft_alarms, "SFT "), *_in_steps(run.alarms), *run.rollbacks] for run in runs}
    return [f"{name}: {', '.join(own)}" for name, own in raised.items() if own]


def _in_steps(raised: Iterable[Alarm], stage: str = "") -> Iterator[str]:
    return (f"{one.name} in {stage}step {one.step}" for one in raised)


def costs(runs: Sequence[ReportedRun]) -> pd.DataFrame:
    """Return mean costs of each setting's finished runs, and total costs of all runs."""
    known = {run.name: run.result for run in runs if run.result and run.result.notes.get("spent")}
    settings = grouped([run for run in runs if run.name in known], nameless="each run")
    names = {run.name: name for name, group in settings.items() for run in group}
    rows = []
    for result in known.values():
        kinds: Mapping[str, Any] = result.notes["spent"]["kinds"]
        rl, demonstrations = kinds.get("rl_episode", {}), kinds.get("demonstration", {}).get("count", 0)
        counts = {"episodes": rl.get("count", 0), "games": rl.get("games", 0), "tokens": rl.get("tokens", 0)}
        rows.append({"units": result.units, "demonstrations": demonstrations, **counts, "seconds": result.seconds})
    frame = pd.DataFrame(rows, index=[names[name] for name in known])
    if frame.empty:
        return frame
    means = frame.groupby(level=0, sort=False).mean()
    means.insert(0, "runs", frame.index.value_counts())
    return pd.concat([means, frame.sum().to_frame("all runs together").T.assign(runs=len(frame))])


def origins(runs: Sequence[ReportedRun]) -> Mapping[tuple[str, str], int]:
    """Count runs by commit and package versions of their last attempt."""
    last = [attempt for run in runs for attempt in run.attempts[-1:]]
    return Counter(
        (
            ((attempt.commit or "")[:10] or "an installed package") + " with changes" * bool(attempt.dirty),
            ", ".join(f"{name} {version}" for name, version in attempt.versions.items()),
        )
        for attempt in last
    )


def sampled(runs: Sequence[ReportedRun]) -> list[Shown]:
    """Return the first wins and losses of each run's last model, then of a base model.

    They are from the run's first evaluation set, at most ``MOST`` in total.
    """
    finished = sorted((run for run in runs if run.result), key=lambda run: run.seed)
    asked = [(run, run.stage(LAST)) for run in finished] + [(run, BASE) for run in finished[:1]]
    return [shown for run, stage in asked[: MOST // (2 * EACH)] for shown in _shown(run, str(stage))]


def _shown(run: ReportedRun, stage: str) -> Iterator[Shown]:
    file = EpisodeFile(episodes_file(run.folder, stage), run.folder)
    left = {True: EACH, False: EACH}  # by whether they are won
    with suppress(DamagedEpisodes):
        for shown in file.shown() if file.path.exists() else ():
            if left[shown.episode.won]:
                left[shown.episode.won] -= 1
                yield shown
            if not any(left.values()):
                return
