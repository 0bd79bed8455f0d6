"""Runs of which only Weights & Biases' logs are left: written by W&B itself, offline, then reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import wandb
from small import wait_for

from experiments.evaluation.result import State
from experiments.evaluation.tracked import MATRIX, MATRIX_COLUMNS
from experiments.report.cells import table_cells
from experiments.report.costs import Origin, origins
from experiments.report.gather import subjects
from records.statistics import wilson
from records.tracking.wandb_log import read_runs

CONFIG = {
    "seed": 4,
    "env": {"name": "textworld", "task": "near"},
    "algo": {"name": "ppo"},
    "run": {"id": "a-run-rl", "folder": "a-run"},
    "provenance": {"commit": "0123456789abcdef", "dirty": False, "versions": {"verl": "0.9.1"}, "started": 1.0},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three training steps of 128 episodes; base model and RL on two evaluation sets."""
    path = tmp_path_factory.mktemp("logs") / "a-run"
    path.mkdir()
    with begun(path) as run:
        for step, share in enumerate([0.1, 0.25, 0.5], start=1):
            told = {"rl/step": step, "success/train": share, "rollout/episodes": 128.0, "rollout/turns": 9.0}
            run.log(told, step=20 + step)  # SFT was before
    with begun(path) as run:
        rows = [
            matrix_row(*evaluation)
            for evaluation in (("base", "near", 40), ("rl", "near", 90), ("base", "far", 4), ("rl", "far", 20))
        ]
        run.log({"evaluation/step": 1, MATRIX: wandb.Table(columns=list(MATRIX_COLUMNS), data=rows)}, step=25)
    return path


@contextmanager
def begun(folder: Path) -> Iterator[wandb.Run]:
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
    names = {"project": "turngrid", "name": "ppo seed=4", "id": "a-run"}
    with wandb.init(mode="offline", dir=folder, config=CONFIG, settings=settings, **names) as run:
        yield run
    wait_for(lambda: read_runs(folder)[-1].ended == 0, 30)  # W&B's own process writes the end a little after finish()


def matrix_row(policy: str, task: str, successes: int) -> list:
    known = {"policy": policy, "env": "textworld", "task": task, "temperature": 0.4, "successes": successes}
    more = {
        "games": 200,
        "samples_per_game": 1,
        "max_turns": 12,
        "optimal_turns": 4.0,
        "invalid_share": 0.1,
        "success": successes / 200,
    }
    return [{**known, **more}.get(name) for name in MATRIX_COLUMNS]


def test_config_curve_and_matrix_are_read_back(folder: Path) -> None:
    ((run,),) = [subject.runs for subject in subjects([folder])]
    assert (run.state, run.seed, run.settings["algo.name"]) == (State.FINISHED, 4, "ppo")
    assert not [key for key in run.settings if key.startswith(("run.", "provenance."))]
    assert origins([run]) == [Origin("0123456789", "verl 0.9.1", 1)]
    assert run.curve.steps == (1, 2, 3)
    assert run.curve.shares == (0.1, 0.25, 0.5)
    assert run.curve.episodes == (128, 256, 384)
    assert run.curve.others["rollout/turns"] == {1: 9.0, 2: 9.0, 3: 9.0}
    assert run.evaluation_sets == [("textworld", "near"), ("textworld", "far")]
    far = run.evaluation("last", "far")
    assert far is not None
    assert (far.successes, far.games, far.turns_over_optimal) == (20, 200, 3.0)


def test_the_table_is_filled_with_wilsons_intervals(folder: Path) -> None:
    (subject,) = subjects([folder])
    (row,) = table_cells(subject.runs, subject.sweep.layout, None)
    found = {evaluation.column: evaluation.estimate.interval for evaluation in row if evaluation.estimate}
    assert found["rl on near"].low == pytest.approx(wilson(90, 200).low)
    assert found["base on far"].mean == pytest.approx(0.02)
    assert list(found) == ["base on near", "rl on near", "base on far", "rl on far"]


def test_a_run_that_was_not_evaluated_is_unfinished(tmp_path: Path) -> None:
    with begun(tmp_path) as run:
        run.log({"rl/step": 1, "success/train": 0.2, "rollout/episodes": 128.0}, step=1)
    ((found,),) = [subject.runs for subject in subjects([tmp_path])]
    assert (found.state, found.curve.steps) == (State.UNFINISHED, (1,))
    assert found.reason == "only W&B logs, of rl, and no evaluation among them"
