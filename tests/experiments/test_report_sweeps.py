"""Every sweep of ours can be reported before anything has run, and its published figures stand in
the table."""

from pathlib import Path

import pytest

from turngrid.experiments.report.cells import table_of, tables
from turngrid.experiments.report.comparisons import Word
from turngrid.experiments.report.contents import contents, html, markdown
from turngrid.experiments.report.gather import Subject, subjects
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import load, names, points
from turngrid.experiments.sweep.record import Sweep, SweepRun
from turngrid.records.process.exit_codes import Refusal


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
    of_tests = "swe" in (table := str(load(name).published)) or table == "released_recipes"
    assert ("mean shares of tests that pass" in text) == of_tests, "said of the paper's scale, the last one"


# ---- the published figures, read off the paper's tables


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("table10_algorithms", "w2-o3-q4/1.5B", "rloo", 0.51),
        ("table4_exploration_budget.swegym", "calls=40,context=6k", "grpo", 0.22),
        ("table9_sft_rl_budget", "sft=100,rl=0", "sft_ppo_in_domain", None),  # not reported
        ("table11_reward_density", "base", "dense2", 0.29),  # one figure for the untrained model, whatever the reward
        ("table5_generalisation", "none", "w2-o12-q4", None),  # a row of ours that the paper does not have
        (
            "table13_hyperparameters",
            "kl_coef=0.01,temperature=0.7,actor_lr=1e-06,critic_lr=1e-05,gamma=1.0",
            "success",
            0.90,
        ),
    ],
)
def test_a_figure_is_found(table: str, row: str, column: str, value: float | None) -> None:
    assert table_of(table).figure(row, column) == value


def test_every_table_of_the_paper_is_there_and_every_figure_is_a_share() -> None:
    assert {table.title for table in tables().values()} == {*(f"table {n}" for n in range(1, 14)), "released recipes"}
    assert table_of("table4_exploration_budget.swegym").title == "table 4"
    for name, table in tables().items():
        cells = [value for row in table.rows.values() for value in row.values()]
        assert cells and all(value is None or 0 <= value <= 1 for value in cells), name
    assert table_of("table13_hyperparameters").protocol["epochs"] == 30
    assert "standard error" in table_of("table9_sft_rl_budget").note
    with pytest.raises(Refusal, match="use published=table10_algorithms"):
        table_of("table10_algorithm")
