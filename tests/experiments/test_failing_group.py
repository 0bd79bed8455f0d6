"""A group of which one sample cannot be saved is replaced and counted; what a tracker sees."""

import os
import re
from pathlib import Path

import flaky_environment
import pytest
import small
from wandb_log import WandbRun

from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.metrics import FAMILIES

pytestmark = pytest.mark.slow
WORDS = ("algo=ppo", "env.name=flaky_environment:Flaky", "env.workers=1", "budget=rl_only", "budget.sft_share=0")
WORDS += ("budget.rl_steps=2", "eval.games=1", "tracking=wandb_offline")


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


def test_trackers_are_told_of_each_step_and_of_each_model_that_is_evaluated(run: tuple[Path, str]):
    told = WandbRun(run[0])
    result, evaluation = RunResult.read(run[0]), told.stage("evaluation")
    for sent, line in zip(told.stage("rl"), small.lines(run[0] / "rl" / "metrics.jsonl"), strict=True):
        known = {name: value for name, value in line.items() if value is not None}
        assert known.items() <= sent.items() and {name.split("/")[0] for name in known} - {"step"} <= set(FAMILIES)
    assert result is not None and told.about["run_group"] == told.about["display_name"] == run[0].name
    assert [(line["policy"], line["step"]) for line in evaluation] == [("base", 0), ("rl", 1)]
    for line, stage in zip(evaluation, result.stages, strict=True):
        shown = [line[f"success/test/w2-o3-q4{bound}"] for bound in ("", "/low", "/high")]
        assert shown == [stage.interval.mean, stage.low, stage.high]
