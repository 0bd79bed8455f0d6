"""What trackers get to know: W&B and trackio for real, killed and started again."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb_log import WandbRun

from turngrid.config.base import ROOT
from turngrid.records.provenance import Attempt
from turngrid.records.run_folder import open_run
from turngrid.tasks.run import Run
from turngrid.tasks.stage_process import stage_variables, tracked
from turngrid.verl_plugin.training.tracking import RunTracking

# Logs steps FIRST..LAST and keeps those up to KEPT, then dies as by kill -9 unless it may finish.
LOG = """
import json, os, signal, sys
from pathlib import Path
from turngrid.records.files.json_lines import read_lines
from turngrid.records.metrics import append_metrics
from turngrid.records.tracking import StageRun, Trackers
run, first, last, kept, finish = json.loads(sys.argv[1])
log = Path(run["folder"]) / run["stage"] / "metrics.jsonl"
trackers = Trackers(StageRun(**run), read_lines(log))
for step in range(first, last + 1):
    metrics = {"success/train": step / 10, "reward/kl_penalty": float("nan"), "rollout/attempt": first}
    append_metrics(log, step, metrics)
    trackers.log(step, metrics)
    if step == 5:
        trackers.alert("turngrid: policy_kl", "step 5: it is far")
    if step <= kept:
        trackers.keep(step)
if not finish:
    os.kill(os.getpid(), signal.SIGKILL)
trackers.finish()
"""
FOREIGN = {"WANDB_RUN_ID": "foreign", "WANDB_RUN_GROUP": "foreign", "WANDB_TAGS": "foreign", "WANDB_NAME": "foreign"}


def settings() -> DictConfig:
    nodes = {node: {"name": node} for node in ("turn_reward", "budget", "model")}
    names = {"env": {"name": "textworld", "task": "w2-o3-q4"}, "algo": {"name": "ppo"}, "seed": 3, "fresh": False}
    tracking = {"name": "wandb_offline", "offline": True, "tags": ["mine"], "group": "a-sweep", "run_name": "seed=3"}
    trainer = {"device": "cpu", "project_name": "turngrid", "logger": ["console", "wandb"]}
    more = {"tracking": tracking, "trainer": trainer, "curriculum": {"name": "horizon", "horizon": {1: 2, 4: 5}}}
    threads = {"cluster": {"trainer_threads": 1, "rollout_threads": 1}}
    return OmegaConf.create(names | nodes | more | threads)


@pytest.fixture
def config() -> DictConfig:
    return settings()


def log(
    config: DictConfig, folder: Path, steps: tuple[int, int], kept: int, finish: bool = True, stage: str = "rl"
) -> None:
    run = [asdict(tracked(Run(config, folder), stage)), *steps, kept, finish]
    own = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}  # another test's wandb may run
    environment = {**own, **FOREIGN, "PYTHONPATH": str(ROOT), **stage_variables(Run(config, folder))}
    command = [sys.executable, "-c", LOG, json.dumps(run)]
    how = {"capture_output": True, "text": True, "timeout": 300}
    ended = subprocess.run(command, check=False, cwd=folder, env=environment, **how)
    assert ended.returncode == (0 if finish else -signal.SIGKILL), ended.stderr


# ---- who a stage is


def test_a_stage_is_one_run_until_a_fresh_start(config: DictConfig, tmp_path: Path) -> None:
    with open_run(config, tmp_path) as run:
        first = tracked(Run(config, run), "rl")
        assert tracked(Run(config, run), "sft").id == first.id
        attempts = run / "attempts.jsonl"
        early = {**json.loads(attempts.read_text()), "started": 1000.0}
        attempts.write_text(json.dumps(early) + "\n")
    with open_run(config, tmp_path) as run:  # goes on, as after a requeue
        again = tracked(Run(config, run), "rl")
        assert again.id == f"{run.name}-1000"
    config.fresh = True
    with open_run(config, tmp_path) as run:
        assert tracked(Run(config, run), "rl").id != again.id


def test_tags_are_what_a_user_filters_by(config: DictConfig, tmp_path: Path) -> None:
    Attempt("0123456789abcdef", False, {}, 5.0).record(tmp_path / "attempts.jsonl")
    tags = ["textworld", "ppo", "turn_reward", "budget", "model", "horizon", "0123456789", "mine"]
    assert tracked(Run(config, tmp_path), "rl").tags == tags
    config.curriculum.name, config.env.name = "none", "package.module:" + "W" * 80  # W&B refuses more than 64 letters
    tags = tracked(Run(config, tmp_path), "rl").tags
    assert "none" not in tags
    assert max(map(len, tags)) == 64


# ---- Weights & Biases


def killed_and_resumed(config: DictConfig, root: Path) -> Path:
    """Killed after step 4, of which 2 is the last with a checkpoint; what is left of metrics.jsonl
    then, as a resume leaves it, goes on to step 5."""
    with open_run(config, root) as run:
        log(config, run, (1, 4), kept=2, finish=False)
        path = run / "rl" / "metrics.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    with open_run(config, root) as run:
        log(config, run, (3, 5), kept=5)
    return run


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, WandbRun]:
    folder = killed_and_resumed(settings(), tmp_path_factory.mktemp("runs"))
    return folder, WandbRun(folder)


def test_a_killed_run_goes_on_under_its_id_with_each_step_once(offline: tuple[Path, WandbRun]) -> None:
    folder, run = offline
    assert len(run.attempts) == 2
    assert run.about["run_id"] == tracked(Run(settings(), folder), "rl").id
    assert [line["_step"] for line in run.history] == [1, 2, 3, 4, 5]
    assert [line["rollout/attempt"] for line in run.history] == [1, 1, 3, 3, 3]  # no step of what was discarded
    assert [line["success/train"] for line in run.history] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert not any("reward/kl_penalty" in line for line in run.history)
    assert run.ended == 0
    assert run.alerts == [("turngrid: policy_kl", "step 5: it is far")]


def test_it_carries_what_a_user_looks_for(offline: tuple[Path, WandbRun]) -> None:
    """And nothing of the environment that the process was started in."""
    folder, run = offline
    assert [run.about[key] for key in ("project", "run_group", "display_name")] == ["turngrid", "a-sweep", "seed=3"]
    assert run.about["tags"] == tracked(Run(settings(), folder), "rl").tags
    assert run.config["curriculum"] == {"name": "horizon", "horizon": {"1": 2, "4": 5}}
    assert run.config["env"] == {"name": "textworld", "task": "w2-o3-q4"}
    assert run.config["run"] == {"id": run.about["run_id"], "folder": folder.name}
    assert run.config["provenance"]["versions"]["verl"] == "0.9.1"
    assert "foreign" not in json.dumps([run.about["tags"], run.config])


def test_the_stages_are_one_run_each_over_its_own_steps(config: DictConfig, tmp_path: Path) -> None:
    """Three steps of SFT and three of RL are there already, logged under another tracker or
    swallowed by a kill: RL's are sent. RL (with a validation) and evaluation begin with step 0."""
    with open_run(config, tmp_path) as run:
        for stage, steps in (("sft", range(1, 4)), ("rl", range(3))):
            path = run / stage / "metrics.jsonl"
            path.parent.mkdir()
            path.write_text("".join(f'{{"step": {step}, "timing/step": {step}.0}}\n' for step in steps))
        config.tracking.name = "wandb_offline"
        log(config, run, (3, 3), kept=3)
        log(config, run, (0, 1), kept=1, stage="evaluation")
        found = WandbRun(run)
    assert [line["_step"] for line in found.history] == [4, 5, 6, 7, 8, 9]
    assert [line["step"] for line in found.stage("rl")] == [0, 1, 2, 3]
    assert [line["step"] for line in found.stage("evaluation")] == [0, 1]
    assert found.stage("sft") == []  # another tracker had it
    assert [line["timing/step"] for line in found.stage("rl")[:3]] == [0.0, 1.0, 2.0]
    assert found.axes["success/train"] == "evaluation/step" and found.axes["timing/step"] == "rl/step"


# ---- trackio


def test_trackio_holds_each_step_once(config: DictConfig, tmp_path: Path) -> None:
    """Two runs of one name in one project: a killed one that goes on leaves the other alone."""
    config.trainer.logger = ["console", "trackio"]
    killed_and_resumed(config, tmp_path)
    with open_run(OmegaConf.merge(config, {"seed": 4}), tmp_path) as other:
        log(config, other, (1, 1), kept=1)
    with sqlite3.connect(tmp_path / "trackio" / "turngrid.db") as base:
        rows = base.execute("select run_id, run_name, step, metrics from metrics order by id").fetchall()
        groups = [json.loads(text)["_Group"] for (text,) in base.execute("select config from configs")]
    assert [(name, step) for _, name, step, _ in rows] == [("seed=3 rl", step) for step in (1, 2, 3, 4, 5, 1)]
    assert len({identity for identity, *_ in rows}) == 2
    assert [json.loads(text)["rollout/attempt"] for *_, text in rows] == [1, 1, 3, 3, 3, 1]
    assert groups == ["a-sweep", "a-sweep"]


def test_tensorboard_shows_each_step_once(config: DictConfig, tmp_path: Path) -> None:
    """The first attempt dies after step 4; what is left of its metrics ends with step 2."""
    config.trainer.logger = ["tensorboard"]
    with open_run(config, tmp_path) as run:
        stage = tracked(Run(config, run), "rl")
        log = run / "rl" / "metrics.jsonl"
        for first, last in ((1, 4), (3, 5)):
            tracker = RunTracking("", "", [], {"run": {"metrics": str(log), "tracking": asdict(stage)}})
            for step in range(first - (first > 1), last + 1):  # validated again at the step of its checkpoint
                tracker.log({"success/attempt": first}, step)
            log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
        events = EventAccumulator(str(run / "tensorboard" / "rl"))
    events.Reload()
    shown = [(event.step, event.value) for event in events.Scalars("success/attempt")]
    assert shown == [(1, 1), (2, 1), (3, 3), (4, 3), (5, 3)]
