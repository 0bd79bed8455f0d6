"""buffer=task_replay through verl's own queue: a failed group of example X learns from what once
won its game."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transfer_queue as tq
from example_step import batch_of, estimated, read, trainer, turns_of, write
from omegaconf import OmegaConf
from test_turn_fields import EPISODE
from transfer_queue import KVBatchMeta

from turngrid.algorithms.turns import OUTCOMES
from turngrid.records.metrics import in_families
from turngrid.records.resume import RlFolder
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.store import write_episodes
from turngrid.verl_plugin.training.credit_log import credits_of
from turngrid.verl_plugin.training.step_records import StepGroups
from turngrid.verl_plugin.training.task import TurngridTrainer
from turngrid.verl_plugin.training.task_loader import Games

LOST = OUTCOMES.index("lost")


@pytest.fixture
def made(queue: None) -> TurngridTrainer:
    made = trainer({"buffer": {"task_replay": {}}})
    learned(made, batch_of("first"), 1)
    return made


def learned(made: TurngridTrainer, batch: KVBatchMeta, step: int) -> tuple[KVBatchMeta, dict[str, Any]]:
    made.global_steps, metrics = step, {}
    made.now.begin(step, 10)
    return estimated(made, made.methods.replay.replace(batch, metrics), metrics), metrics


def failed(partition: str) -> KVBatchMeta:
    """Example X, but for group P, of which nobody won anything."""
    batch = batch_of(partition)
    keys = [key for key in batch.keys if key.startswith("P_")]
    rewards = read(batch, "rm_scores", keys=keys)["rm_scores"] * 0
    write(batch, keys, rm_scores=rewards, turn_outcome=torch.full((len(keys), 1), LOST))
    return batch


def held(made: TurngridTrainer) -> list[dict[str, Any]]:
    return made.methods.chosen.state()["buffer/task_replay"]["episodes"]


def test_a_failed_group_learns_from_a_stored_win(made: TurngridTrainer) -> None:
    done, metrics = learned(made, failed("second"), 2)
    turns = turns_of(done)
    assert turns["P_0"] == pytest.approx([-0.5] * 2, abs=1e-5) and turns["P_1"] == pytest.approx([-0.5] * 3, abs=1e-5)
    # the last of the worst: three turns of its own, two of the win
    assert turns["P_3"] == pytest.approx([1.5] * 2, abs=1e-5)
    assert turns["Q_5"] == pytest.approx([1.15470] * 2, abs=1e-5)
    assert metrics["buffer/task_replay/replaced"] == metrics["buffer/task_replay/age"] == 1
    for field in ("responses", "loss_mask", "response_mask"):  # the loss is divided by the tokens that are learned from
        assert torch.equal(tokens("second", "P_3_0", field), tokens("first", "P_0_0", field)), field
    won = tokens("first", "P_0_0")
    assert done.tags[done.keys.index("P_3_0")]["response_len"] == len(won)


def tokens(partition: str, key: str, field: str = "responses") -> torch.Tensor:
    return tq.kv_batch_get(keys=[key], partition_id=partition, select_fields=[field])[field][0]


def test_what_is_replayed_is_neither_logged_nor_stored_again(made: TurngridTrainer) -> None:
    done, _ = learned(made, failed("third"), 2)
    assert "P_3_0" not in credits_of(done) and "P_2_0" in credits_of(done)
    assert [(episode["task"], episode["step"]) for episode in held(made)] == [("game P", 1), ("game Q", 2)]


def test_a_mended_group_is_told_as_it_was_played(made: TurngridTrainer, tmp_path: Path) -> None:
    """Though its advantages, and what verl logs, are of the episode that took a place."""
    learned(made, failed("told"), 2)
    nodes = {"turn_reward": {"name": "sparse"}, "curriculum": {"name": "none"}, "env": {"max_action_tokens": 8}}
    made.config, rl = OmegaConf.merge(made.config, nodes), RlFolder(tmp_path)
    made.groups, made.games = StepGroups(rl, 2, made.now), Games(made.config)
    for group in "PQ":
        played = [replace(EPISODE, sample=sample, turns=[Turn("", "", rewards={"sparse": 0.0})]) for sample in range(4)]
        write_episodes(rl.episodes / "000002" / f"{group}.jsonl", played)
    found = made.gather_episodes()
    assert found["credit/groups_without_signal"] == 0.5, "Q's samples scored alike; P learned from a win"
    assert found["reward/trained/max"] == 0.0
    assert in_families({"critic/score/max": 1.0, **found})["reward/trained/max"] == 0.0
