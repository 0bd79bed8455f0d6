"""An environment that fails again and again ends the run, and the message has its last error."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from turngrid.verl_plugin.training.step import Step
from turngrid.verl_plugin.training.step_records import MAX_FAILED_GROUPS, EnvironmentKeepsFailing, StepGroups

MOST = MAX_FAILED_GROUPS * 4  # groups that may fail in a step of 4 prompts


def groups(folder: Path, failures: int) -> StepGroups:
    """The groups of step 2, of which so many failed."""
    made = StepGroups(OmegaConf.create({"data": {"train_batch_size": 4}, "run": {"episodes": str(folder)}}), Step(2))
    made.begin()
    for number in range(failures):
        (made.folder / f"000002-{number:04d}.failed").write_text("EnvError: the game hung\n", encoding="utf-8")
    return made


def test_refills_have_an_end(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentKeepsFailing, match=f"^step 2: {MOST + 1} groups failed .*\nEnvError: the game hung$"
    ):
        groups(tmp_path, MOST + 1).guard()


def test_some_refills_are_borne(tmp_path: Path) -> None:
    groups(tmp_path, MOST).guard()
