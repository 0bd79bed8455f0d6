"""Every sweep of ours can be reported before anything has run, and its published figures stand in
the table."""

from pathlib import Path

import pytest

from benchmarks.report import LIMIT_MB, LIMIT_SECONDS, make, measure
from turngrid.experiments.report import cells as published
from turngrid.experiments.report.comparisons import Word
from turngrid.experiments.report.contents import contents, html, markdown
from turngrid.experiments.report.gather import Subject, subjects
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import load, names, points
from turngrid.experiments.sweep.record import Sweep, SweepRun


def planned(name: str, scale: str, output: Path) -> Subject:
    definition = load(name)
    chosen = definition.scales[scale]
    runs = [
        SweepRun(dict(point.coordinates), point.seed, list(point.overrides), f"run-{number}")
        for number, point in enumerate(points(chosen, chosen.seeds, [], {}))
    ]
    about = (definition.title, definition.question, definition.published, chosen.note, chosen.layout, chosen.takeaways)
    folder = record.write(Sweep(name, scale, *about, [], runs), output)
    (subject,) = subjects([folder])
    return subject


@pytest.mark.parametrize("name", names())
def test_a_sweep_that_has_not_run(name: str, tmp_path: Path) -> None:
    for scale in load(name).scales:
        subject = planned(name, scale, tmp_path)
        found = contents(subject)
        assert {cell.estimate for row in found["table"] for cell in row} == {None}
        assert {verdict.word for verdict in found["verdicts"]} <= {Word.NOT_ENOUGH}
        assert len(found["missing"]) == len(subject.runs)
        page = html(subject, tmp_path)
        assert page.count("<svg") == sum(len(row) for row in found["table"])
        text = markdown(subject, tmp_path).replace("\\|", "|").replace("&lt;", "<")
        assert [row[0].row for row in found["table"] if row[0].row not in text] == []


@pytest.mark.parametrize("name", [name for name in names() if load(name).published])
def test_all_figures_of_a_published_table_are_shown_at_paper_scale(name: str, tmp_path: Path) -> None:
    subject = planned(name, "paper", tmp_path)
    shown = [cell.published for row in contents(subject)["table"] for cell in row if cell.published is not None]
    table = str(subject.sweep.published)
    study = published.table_of(table)
    known = [value for row in study.rows.values() for value in row.values() if value is not None]
    assert len(shown) >= len(known) // 2  # some columns of a table are differences that a sweep has no cell for
    of_tests = "swe" in table or table == "released_recipes"
    assert ("mean shares of tests that pass" in markdown(subject, tmp_path)) == of_tests
    assert set(shown) <= set(known) | {study.protocol.get(published.BASE)}


@pytest.mark.slow
def test_two_hundred_runs_in_twenty_seconds_and_ten_megabytes(tmp_path: Path) -> None:
    wall, _, megabytes = measure(make(tmp_path, seeds=10))
    assert wall <= LIMIT_SECONDS
    assert megabytes <= LIMIT_MB
