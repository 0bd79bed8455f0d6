"""The report's table: runs of a cell, published figures; that of our sweeps before anything ran."""

import json
from pathlib import Path

import numpy as np
import pytest
from finished_run import ONE_OF_TWO
from report_sweep import BASE, TASK, SweepMaker, wins

from benchmarks import synthetic_runs as synthetic
from turngrid.experiments.evaluation.result import EvaluationResult, RunResult, State
from turngrid.experiments.report.cells import TableCell, table_cells, table_of, tables
from turngrid.experiments.report.comparisons import Word
from turngrid.experiments.report.contents import contents, html, markdown
from turngrid.experiments.report.gather import Subject, subjects
from turngrid.experiments.report.runs import ReportedRun, read_run
from turngrid.experiments.report.samples import shares_of
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import load, names, points
from turngrid.experiments.sweep.record import Sweep, SweepRun
from turngrid.records.files.json_lines import write_lines
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.statistics import mean_interval, wilson
from turngrid.rollouts.store import write_episodes

COLUMNS = {"base": {"stage": "base"}, "ppo": {"algo": "ppo", "stage": "rl"}, "grpo": {"algo": "grpo", "stage": "rl"}}
ROWS = {TASK: {"published": "w2-o3-q4/1.5B"}}


def cells(subject: Subject) -> dict[str, TableCell]:
    """Of the first row, by column."""
    return {cell.column: cell for cell in table_cells(subject.runs, subject.sweep.layout, subject.sweep.published)[0]}


def test_an_evaluation_is_the_mean_over_seeds_with_games_drawn_anew(maker: SweepMaker) -> None:
    rows = [wins(10), wins(12)]
    for seed, row in enumerate(rows):
        file = maker.run({"base": BASE, "rl": row}, seed, algo="ppo") / "result.json"
    file.write_text(file.read_text().replace('"notes": {', '"notes": {"rollbacks": ["policy_kl in step 3"], '))
    found = cells(maker.subject(ROWS, COLUMNS))["ppo"].estimate
    assert found.interval.mean == pytest.approx(0.55)
    assert found.interval == mean_interval(np.mean(rows, axis=0))
    assert found.by_seed == {0: 0.5, 1: 0.6}
    assert (found.seeds, found.games, *found.notes) == ("2 seeds", 20, "rolled back to a lower learning rate: 1")


def test_a_score_is_drawn_over_games_whatever_the_seeds(maker: SweepMaker) -> None:
    """Ten games half solved and five solved: success 25 %, score 50 %."""
    half = [0.5] * 10 + [1] * 5 + [0] * 5
    maker.run({"rl": half}, 0, algo="ppo")
    subject = maker.subject(ROWS, {"won": {}, "scored": {"measure": "score"}})
    found = cells(subject)
    won, scored = found["won"].estimate, found["scored"].estimate
    assert won.interval == wilson(5, 20)
    assert scored.interval == mean_interval(half)
    assert scored.interval.mean == 0.5
    assert [found[name].measure for name in found] == ["success", "score"] and won.seeds == "1 seed"
    file = maker.output / "ppo-s0" / "result.json"
    file.write_text(file.read_text().replace('"mean_score": 0.5', '"mean_score": null'))
    unknown = cells(maker.subject(ROWS, {"scored": {"measure": "score"}}))["scored"]
    assert (unknown.estimate, unknown.why) == (None, "the best score of these games is not known")


def test_matches_against_a_further_opponent_are_in_its_folder(tmp_path: Path) -> None:
    about = {**ONE_OF_TWO, "out_of_reach": 0}
    exact = EvaluationResult(policy="rl", env="two_player", task="TicTacToe-v0 against exact", **about)
    lines = [{"task": f"two_player/TicTacToe-v0/{seed}", "outcome": end} for seed, end in ((1, "won"), (2, "drawn"))]
    write_lines(tmp_path / "evaluation" / "TicTacToe-v0-exact-t0.4" / "rl.jsonl", lines)
    run = ReportedRun(tmp_path, {}, 0, State.FINISHED, {"env.name": "two_player"})
    assert shares_of(run, exact).tolist() == [1.0, 0.0]


def test_published_figures_stand_beside(maker: SweepMaker) -> None:
    """Table 10: 0.15 for the base model, 0.88 for PPO, 0.18 for GRPO."""
    for seed in range(2):
        maker.run({"base": BASE, "rl": wins(10)}, seed, algo="ppo")
    columns = {**COLUMNS, "sft": {"stage": "sft", "published": "none"}, "ours": {"algo": "ppo"}}
    found = cells(maker.subject(ROWS, columns, published="table10_algorithms"))
    assert [found[name].published for name in (*COLUMNS, "sft", "ours")] == [0.15, 0.88, 0.18, None, None]
    assert found["ours"].estimate is not None  # no such column in the paper: our figure stands alone
    base = found["base"].estimate  # however many runs have it
    assert base is not None and (base.interval, base.seeds) == (wilson(4, 20), "1 measurement")


def test_an_empty_cell_says_why(maker: SweepMaker) -> None:
    maker.run({"base": BASE, "rl": wins(10)}, 0, algo="ppo")
    maker.failed(1, algo="ppo")
    maker.failed(0, algo="grpo")
    maker.unfinished(1, algo="grpo")
    maker.not_started(2, algo="grpo")
    more = {"sft": {"algo": "ppo", "stage": "sft"}, "far": {"algo": "ppo", "evaluation_set": "w9-o9-q9"}}
    found = cells(maker.subject(ROWS, {**COLUMNS, **more, "rloo": {"algo": "rloo"}}))
    assert {name: cell.why for name, cell in found.items() if cell.estimate is None} == {
        "grpo": "1 failed, 1 unfinished, 1 not started",
        "sft": "no model after SFT",
        "far": "not evaluated on w9-o9-q9",
        "rloo": "no such run in the sweep",
    }
    assert found["ppo"].estimate is not None and found["ppo"].estimate.seeds == "1 of 2 seeds"


def test_axes_left_open_are_averaged_and_said_so(maker: SweepMaker) -> None:
    for seed in (0, 1):
        maker.run({"base": {"easy": BASE}, "rl": {"easy": wins(12)}}, seed, algo="ppo", task="easy")
        maker.run({"rl": {"hard": wins(4)}}, seed, algo="ppo", task="hard")
    big = maker.run({"base": {"easy": wins(20)}, "rl": {"easy": wins(12)}}, 0, algo="grpo", task="easy") / "result.json"
    big.write_text(big.read_text().replace('"checkpoint": "base"', '"checkpoint": "big"'))
    maker.run({"rl": {"hard": wins(12)}}, 1, algo="grpo", task="hard")
    found = {name: cell.estimate for name, cell in cells(maker.subject({"all": {}}, COLUMNS)).items()}
    assert found["grpo"].seeds == "no seed in all settings"
    assert (found["base"].interval.mean, found["base"].notes) == (pytest.approx(0.6), ("mean of 2 settings",))
    found = found["ppo"]
    assert found.interval.mean == pytest.approx(0.4)
    assert (found.interval.low < 0.35, found.interval.high > 0.45) == (True, True)
    assert (found.games, found.notes) == (40, ("mean of 2 settings",))
    assert found.by_seed == {0: pytest.approx(0.4), 1: pytest.approx(0.4)}


@pytest.mark.parametrize(
    ("damage", "why"),
    [(word, "episodes are missing") for word in ("gone", "other", "cut")] + [("fewer", "different games")],
)
def test_without_the_episodes_a_cell_is_empty(maker: SweepMaker, damage: str, why: str) -> None:
    maker.run({"rl": wins(10)}, 0, algo="ppo")
    path = maker.run({"rl": wins(12)[: 10 if damage == "fewer" else 20]}, 1, algo="ppo") / "evaluation" / "rl.jsonl"
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif damage == "other":  # episodes that do not add up to what result.json says
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({**line, "outcome": "won"}) + "\n" for line in lines))
    found = cells(subject := maker.subject(ROWS, COLUMNS))["ppo"]
    assert found.estimate is None and why in found.why and why in html(subject, maker.output)


def test_a_mixtures_evaluation_set_is_cut_into_its_tasks(tmp_path: Path) -> None:
    """Six games of two tasks in turn: 3 wins of 3 easy ones, 1 of 3 hard ones."""
    won = [1, 0, 1, 1, 1, 0]
    played = enumerate(zip("eheheh", won, strict=True))
    episodes = [synthetic.episode(task, game, win, 2) for game, (task, win) in played]
    folder = synthetic.begin_run(tmp_path / "run", seed=0)
    write_episodes(folder / "evaluation" / "rl.jsonl", episodes)
    parts = {"mixture": episodes, "e": episodes[::2], "h": episodes[1::2]}
    evaluations = [synthetic.evaluation_of("rl", name, own) for name, own in parts.items()]
    RunResult("run", str(folder), 0, [synthetic.stage_of(evaluations[0])], 0.0, matrix=evaluations).write(folder)
    run = read_run(folder)
    shares = {evaluation.task: shares_of(run, evaluation).tolist() for evaluation in run.evaluations}
    assert shares == {"mixture": won, "e": [1, 1, 1], "h": [0, 1, 0]}


# ---- sweeps that have not run


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
        text = markdown(subject).replace("\\|", "|").replace("&lt;", "<")
        assert [row[0].row for row in found["table"] if row[0].row not in text] == []
    of_tests = "swe" in (table := str(load(name).published)) or table == "released_recipes"
    assert ("mean shares of tests that pass" in text) == of_tests, "said of the paper's scale, the last one"
    assert ("Its figures in swegym" in text) == (table == "released_recipes"), "its other rows are shares of games"


# ---- the published figures, read off the paper's tables


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("table10_algorithms", "w2-o3-q4/1.5B", "rloo", 0.51),
        ("table4_exploration_budget_swe", "calls=40,context=6k", "grpo", 0.22),
        ("table9_sft_rl_budget", "sft=100,rl=0", "sft_ppo_in_domain", None),  # not reported
        ("table11_reward_density", "base", "dense2", 0.29),  # one figure for the untrained model, whatever the reward
        ("table5_generalisation", "none", "w2-o12-q4", None),  # a row of ours that the paper does not have
    ],
)
def test_a_figure_is_found(table: str, row: str, column: str, value: float | None) -> None:
    assert table_of(table).figure(row, column) == value


def test_every_table_of_the_paper_is_there_and_every_figure_is_a_share() -> None:
    assert {table.title for table in tables().values()} == {*(f"table {n}" for n in range(1, 14)), "released recipes"}
    assert table_of("table4_exploration_budget_swe").title == "table 4"
    for name, table in tables().items():
        cells = [value for row in table.rows.values() for value in row.values()]
        assert cells and all(value is None or 0 <= value <= 1 for value in cells), name
    assert table_of("table13_hyperparameters").protocol["epochs"] == 30
    assert "standard error" in table_of("table9_sft_rl_budget").note
    with pytest.raises(Refusal, match="use published=table10_algorithms"):
        table_of("table10_algorithm")
