"""What the copy of a run has with which an extended run begins."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from omegaconf import OmegaConf

from turngrid.envs.utils.files import write_whole
from turngrid.records import run_folder
from turngrid.records.extended import copy_run
from turngrid.records.files import checkpoints
from turngrid.records.resume import RlFolder


def test_extensions_of_one_run_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = OmegaConf.create({"extend": str(tmp_path / "run"), "eval": {}})
    copied: list[str] = []
    monkeypatch.setattr(run_folder, "copy_run", lambda _, path, same: time.sleep(0.2) or copied.append(path.name))
    both = ThreadPoolExecutor(2, initializer=Barrier(2).wait)
    list(both.map(lambda name: run_folder._begin_extension(config, tmp_path / name), "ab"))
    assert sorted(copied) == ["a", "b"]


def test_opponents_from_the_past_are_there(tmp_path: Path) -> None:
    """Any later step may draw one of them (``rollout_form.self_play.opponent=past``)."""
    source, target = tmp_path / "run", tmp_path / "longer"
    saved = checkpoints.folder_of(RlFolder(source).checkpoints, 2)
    write_whole(saved / "actor" / "weights", "after step 2")
    checkpoints.seal(saved)
    write_whole(RlFolder(source).opponents / "000000.pt", "before RL")
    assert copy_run(source, target, evaluation=False) == 2
    assert (RlFolder(target).opponents / "000000.pt").read_text() == "before RL"
