"""What Weights & Biases gets to know, from a real offline run that verl's own tracking code starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from experiments.environment import stage_environment, wandb_environment
from experiments.run_folder import open_run
from train.base import ROOT

LOG = """
from verl.utils.tracking import Tracking
tracking = Tracking("turngrid", "a-run", ["wandb"], config={"seed": 3, "trainer": {}})
for step in (1, 2):
    tracking.log({"score": step / 2}, step=step)
"""


@pytest.fixture
def config() -> DictConfig:
    nodes = {node: {"name": node} for node in ("turn_reward", "budget", "model")}
    names = {"env": {"name": "textworld", "task": "w2-o3-q4"}, "algo": {"name": "ppo"}, "seed": 3, "fresh": False}
    tracking = {"name": "wandb_offline", "offline": True, "tags": ["mine"]}
    return OmegaConf.create(names | nodes | {"tracking": tracking, "trainer": {"device": "cpu"}})


def test_a_stage_is_one_wandb_run_until_a_fresh_start(config: DictConfig, tmp_path: Path) -> None:
    with open_run(config, tmp_path) as run:
        first = wandb_environment(config, run.path, "rl")
        assert wandb_environment(config, run.path, "sft")["WANDB_RUN_ID"] != first["WANDB_RUN_ID"]
        attempts = run.path / "attempts.jsonl"
        early = {**json.loads(attempts.read_text()), "started": 1000.0}
        attempts.write_text(json.dumps(early) + "\n")
    with open_run(config, tmp_path) as run:  # goes on
        again = wandb_environment(config, run.path, "rl")
        assert again["WANDB_RUN_ID"].endswith("-rl-1000")
    config.fresh = True
    with open_run(config, tmp_path) as run:
        assert wandb_environment(config, run.path, "rl")["WANDB_RUN_ID"] != again["WANDB_RUN_ID"]


def test_an_offline_run_carries_group_tags_and_metrics(config: DictConfig, tmp_path: Path) -> None:
    folder = tmp_path / "textworld-run"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **stage_environment(config, folder, "rl")}
    subprocess.run([sys.executable, "-c", LOG], cwd=folder, env=environment, check=True, timeout=120)
    (log,) = folder.glob("wandb/offline-run-*/*.wandb")
    text = log.read_bytes()
    for words in (b"textworld-run", b"textworld-run-rl-0", b"mine", b"ppo", b"score"):
        assert words in text
