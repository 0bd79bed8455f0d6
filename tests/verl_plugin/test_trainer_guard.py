"""An environment that fails again and again ends the run, and says why."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from verl_plugin.training.trainer import MAX_FAILED_GROUPS, EnvironmentKeepsFailing, TurngridTrainer


def trainer(folder: Path, prompts: int, replaced: int = 0) -> TurngridTrainer:
    """The trainer in its second step, after ``prompts`` were drawn for a batch of 4, ``replaced`` of them by dynamic sampling."""
    made = object.__new__(TurngridTrainer)
    made.config = OmegaConf.create({"data": {"train_batch_size": 4}, "run": {"episodes": str(folder)}})
    made.global_steps, made._prompts_of_step = 2, prompts
    made.replay_buffer = SimpleNamespace(replaced=replaced)
    return made


def test_refills_have_an_end(tmp_path: Path) -> None:
    causes = tmp_path / "000002"
    causes.mkdir()
    (causes / "000002-0007.failed").write_text("EnvError: the game hung\n", encoding="utf-8")
    with pytest.raises(EnvironmentKeepsFailing, match="^step 2: 13 groups failed .*\nEnvError: the game hung$"):
        trainer(tmp_path, (1 + MAX_FAILED_GROUPS) * 4 + 1)._guard_against_endless_refills()


def test_some_refills_are_borne(tmp_path: Path) -> None:
    trainer(tmp_path, (1 + MAX_FAILED_GROUPS) * 4)._guard_against_endless_refills()


def test_what_dynamic_sampling_replaced_did_not_fail(tmp_path: Path) -> None:
    trainer(tmp_path, (1 + MAX_FAILED_GROUPS) * 4 + 9, replaced=9)._guard_against_endless_refills()
