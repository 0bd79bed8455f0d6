"""One sample of a group that cannot be saved: the whole group goes, another takes its place, and it
is counted; and what every tracker was told of that run."""

import json
import os
import re
import sqlite3
from pathlib import Path

import flaky_environment
import pytest
import small
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb_log import WandbRun, read_runs

from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.metrics import FAMILIES

pytestmark = pytest.mark.slow
WORDS = ("algo=ppo", "env.name=flaky_environment:Flaky", "env.workers=1", "budget=rl_only", "budget.sft_share=0")
WORDS += ("budget.rl_steps=2", "eval.games=1", "tracking=wandb_offline")
WORDS += ("trainer.logger=[console,tensorboard,wandb,trackio]",)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    output, notes = (tmp_path_factory.mktemp(name) for name in ("failing", "notes"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (Path(__file__).parent, small.ROOT))))
        patch.setenv(flaky_environment.FOLDER, str(notes))
        folder = small.finish(output, *WORDS)
    return folder, (notes / "victim").read_text()


def test_the_group_is_replaced_counted_and_not_charged(run: tuple[Path, str]):
    folder, victim = run
    games = [episode["seed"] for episode in small.lines(folder / "rl" / "episodes" / "000001.jsonl")]
    assert int(victim) not in games and len(games) == 16
    assert {games.count(game) for game in games} == {4}
    step, _ = small.lines(folder / "rl" / "metrics.jsonl")
    assert step["rollout/failed_groups"] == 1
    assert step["verl/training/rollout_failure/evicted_samples"] == 1
    charged, _ = [entry for entry in small.lines(folder / "ledger.jsonl") if entry["kind"] == "rl_episode"]
    assert (charged["count"], charged["units"]) == (16, 4)
    log = (folder / "logs" / "rl.log").read_text()
    assert re.search(r"dropped: .*KeyError: .*a bad game.* at .*/flaky_environment.py:\d+: raise KeyError", log)


# ---- what the trackers were told


@pytest.fixture(scope="session")
def told(run: tuple[Path, str]) -> WandbRun:
    (found,) = read_runs(run[0])
    return found


def logged(folder: Path) -> list[dict[str, float]]:
    lines = small.lines(folder / "rl" / "metrics.jsonl")
    return [{name: value for name, value in line.items() if value is not None} for line in lines]


def test_every_log_has_the_same_numbers_under_the_same_names(run: tuple[Path, str], told: WandbRun):
    folder, _ = run
    with sqlite3.connect(folder.parent / "trackio" / "turngrid.db") as base:
        rows = base.execute("select step, metrics from metrics where run_name = ? order by id", [f"{folder.name} rl"])
        trackio = [{"step": step, **json.loads(text)} for step, text in rows]
    wandb = [without_own(line) for line in told.stage("rl")]
    assert logged(folder) == trackio == wandb
    assert {name.split("/")[0] for name in logged(folder)[0]} - {"step"} <= set(FAMILIES)
    events = EventAccumulator(str(folder / "tensorboard" / "rl"))
    events.Reload()
    lines = logged(folder)
    assert set(events.Tags()["scalars"]) == set(lines[0]) - {"step"} | set(lines[1]) - {"step"}
    for name in ("success/train", "budget/units", "credit/advantage/std", "timing/step"):
        drawn = [(event.step, event.value) for event in events.Scalars(name)]
        assert drawn == [(line["step"], pytest.approx(line[name], rel=1e-6)) for line in lines]


def without_own(line: dict) -> dict:
    return {name: value for name, value in line.items() if not name.startswith("_") and name != "rl/step"}


def test_what_was_spent_is_what_the_ledger_charges(run: tuple[Path, str]):
    charged = [entry for entry in small.lines(run[0] / "ledger.jsonl") if entry["kind"] == "rl_episode"]
    for line, upto in zip(logged(run[0]), (charged[:1], charged), strict=True):
        assert line["budget/units"] == sum(entry["units"] for entry in upto)
        assert line["budget/episodes"] == sum(entry["count"] for entry in upto)
        assert line["budget/tokens"] == sum(entry["tokens"] for entry in upto)


def test_the_evaluation_is_a_stage_with_a_step_for_each_model(run: tuple[Path, str], told: WandbRun):
    result, evaluation = RunResult.read(run[0]), told.stage("evaluation")
    assert result is not None and told.group == told.name == run[0].name
    assert [(line["policy"], line["step"]) for line in evaluation] == [("base", 0), ("rl", 1)]
    for line, stage in zip(evaluation, result.stages, strict=True):
        shown = [line[f"success/test/w2-o3-q4{bound}"] for bound in ("", "/low", "/high")]
        assert shown == [stage.interval.mean, stage.low, stage.high]
