"""The contents of a report, before they are rendered as HTML or Markdown."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pandas as pd

from turngrid.experiments.evaluation.result import State
from turngrid.experiments.report import published
from turngrid.experiments.report.cells import table_cells
from turngrid.experiments.report.charts import curves, metrics
from turngrid.experiments.report.comparisons import Word, differences, verdicts
from turngrid.experiments.report.gather import Subject
from turngrid.experiments.report.reliability import reliability
from turngrid.experiments.report.runs import LAST, Run, grouped, setting_names
from turngrid.experiments.report.samples import BASE
from turngrid.experiments.report.settings import shared_and_varied
from turngrid.experiments.sweep.definition import SCORE, SUCCESS

UNITS = {SUCCESS: "Success in % of games", SCORE: "Score in % of a game's best"}
SHARES_OF_TESTS = (
    "mean shares of tests that pass, and the study does not say of which tests. Ours are the share of failing tests "
    "that were repaired, less the share of passing tests that were broken and not below 0: "
    "0 for a repository that nobody touched"
)
RESOLVED = "mean shares of tests that pass, where ours are shares of instances resolved: two measures, not one"


class Contents:
    """A report's texts, figures and charts.

    Attributes:
        table: cells, row by row.
        table_name, table_note: the published table beside it and a note on it, or "".
        pairs: differences between all values of the varied axes, if the sweep declares no
            takeaways.
        generalisation: success by setting and evaluation set, as an HTML table; "" if there is one
            set.
        left_out: runs of the folder that are in no report, each with the reason.
        shared, varied: settings of the runs.
        made: date and time as shown.

    Raises:
        PublishedError: the sweep names an unknown published table.
    """

    def __init__(self, subject: Subject) -> None:
        self.sweep, self.runs = sweep, runs = subject.sweep, subject.runs
        self.loose, self.left_out = subject.loose, subject.left_out
        self.table = table_cells(runs, sweep.layout, sweep.published)
        self.table_name = published.table_name(sweep.published) if sweep.published else ""
        self.table_note = published.note(sweep.published) if sweep.published else ""
        self.verdicts = verdicts(sweep, runs)
        self.pairs = [] if sweep.takeaways else differences(runs)
        self.reliability = reliability(runs)
        self.curves, self.training = curves(runs), metrics(runs)
        self.generalisation = generalisation(runs)
        self.costs, self.origins = costs(runs), origins(runs)
        self.shared, self.varied = shared_and_varied(runs)
        self.made = time.strftime("%Y-%m-%d %H:%M %Z")

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Return run folder -> a unique label, such as ``ppo seed 1``."""
        names = setting_names(self.runs)
        return {run.name: f"{name} seed {run.seed}".strip() for run, name in zip(self.runs, names, strict=True)}

    @property
    def counts(self) -> Mapping[State, int]:
        """Count runs by state, in the order of ``State``, without zeros."""
        by_state = Counter(run.state for run in self.runs)
        return {state: by_state[state] for state in State if by_state[state]}

    @property
    def words(self) -> Mapping[Word, int]:
        """Count claims by verdict, in the order of ``Word``, without zeros."""
        by_word = Counter(verdict.word for verdict in self.verdicts)
        return {word: by_word[word] for word in Word if by_word[word]}

    @property
    def missing(self) -> list[Run]:
        """Return runs without a result, failed ones first."""
        order = list(State)
        return sorted((run for run in self.runs if not run.result), key=lambda run: order.index(run.state))

    @property
    def other_measure(self) -> str:
        """Return the measure of the published figures if it differs from ours, else ""."""
        beside = {cell.measure for row in self.table for cell in row if cell.published is not None}
        if SCORE in beside:
            return SHARES_OF_TESTS
        return RESOLVED if beside and "swe" in (self.sweep.published or "") else ""

    @property
    def measures(self) -> list[str]:
        """Return the measures in the table's cells: ``success``, ``score`` or both."""
        return list(dict.fromkeys(cell.measure for row in self.table for cell in row)) or [SUCCESS]

    @property
    def units(self) -> str:
        """Return the table's measures with their units."""
        return "; ".join(UNITS[measure] for measure in self.measures)

    @property
    def played(self) -> str:
        """Describe games, samples, temperature and turn limit of the test in one sentence."""
        ways = {
            (evaluation.games, evaluation.samples_per_game, evaluation.temperature)
            for run in self.runs
            for evaluation in run.evaluations[:1]
        }
        words = [
            f"{games} test games, "
            f"{'one sample' if samples_per_game == 1 else f'{samples_per_game} samples'} each, "
            f"temperature {temperature:g}"
            for games, samples_per_game, temperature in sorted(ways)
        ]
        turns = sorted({evaluation.max_turns for run in self.runs for evaluation in run.evaluations})
        return f"{'; or '.join(words[:4])}, at most {' or '.join(map(str, turns))} turns" if words else ""


def generalisation(runs: Sequence[Run]) -> str:
    """Return a shaded table of success, % by setting and evaluation set, means over seeds."""
    finished = [run for run in runs if run.result]
    if not any(len(run.evaluation_sets) > 1 for run in finished):
        return ""
    groups = {"base model": (BASE, finished)} | {
        name: (LAST, group) for name, group in grouped(finished, nameless="last model").items()
    }
    rows = [
        (name, f"{one.env}/{one.task}", 100 * one.interval.mean)
        for name, (stage, group) in groups.items()
        for run in group
        for one in run.stage_evaluations(stage)
    ]
    frame = pd.DataFrame(rows, columns=["setting", "set", "success"])
    table = frame.pivot_table(index="setting", columns="set", values="success", sort=False).rename_axis(None, axis=1)
    style = table.rename_axis(None).style.format("{:.1f}", na_rep="").background_gradient("Blues", axis=None, vmin=0)
    style = style.highlight_null("transparent").format_index(escape="html").format_index(escape="html", axis=1)
    return style.set_uuid("generalisation").to_html()


def costs(runs: Sequence[Run]) -> pd.DataFrame:
    """Return mean costs of each setting's finished runs, and total costs of all runs."""
    known = [run for run in runs if run.result and run.result.notes.get("spent")]
    names = {run.name: name for name, group in grouped(known, nameless="each run").items() for run in group}
    frame = pd.DataFrame([_cost(run) for run in known], index=[names[run.name] for run in known])
    if frame.empty:
        return frame
    means = frame.groupby(level=0, sort=False).mean()
    means.insert(0, "runs", frame.index.value_counts())
    return pd.concat([means, frame.sum().to_frame("all runs together").T.assign(runs=len(frame))])


def _cost(run: Run) -> dict[str, float]:
    assert run.result is not None
    kinds: Mapping[str, Any] = run.result.notes["spent"]["kinds"]
    rl, demonstrations = kinds.get("rl_episode", {}), kinds.get("demonstration", {})
    return {
        "units": run.result.units,
        "demonstrations": demonstrations.get("count", 0),
        "episodes": rl.get("count", 0),
        "games": rl.get("games", 0),
        "tokens": rl.get("tokens", 0),
        "seconds": run.result.seconds,
    }


def origins(runs: Sequence[Run]) -> Mapping[tuple[str, str], int]:
    """Count runs by commit and package versions of their last attempt."""
    last = [attempt for run in runs for attempt in run.attempts[-1:]]
    return Counter(
        (
            ((attempt.commit or "")[:10] or "an installed package") + " with changes" * bool(attempt.dirty),
            ", ".join(f"{name} {version}" for name, version in attempt.versions.items()),
        )
        for attempt in last
    )
