"""Sealed folders, checkpoints and broken lines; test_whole_run.py damages every file of a run."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from turngrid.records.damage import discard_damaged
from turngrid.records.files import checkpoints
from turngrid.records.files.checkpoints import MANIFEST, flaw_in, seal
from turngrid.records.files.json_lines import read_lines, whole_lines
from turngrid.records.metrics import append_metrics
from turngrid.records.models import locate
from turngrid.records.process.child import StageFailed
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.resume import RlFolder
from turngrid.records.stages import stage, stage_seconds


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = tmp_path / "sealed"
    (folder / "inner").mkdir(parents=True)
    torch.save({"weights": torch.ones(100)}, folder / "inner" / "optim.pt")
    save_file({"weights": torch.ones(100)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"layers": 2}')
    seal(folder)
    return folder


@pytest.mark.parametrize("name", ["inner/optim.pt", "model.safetensors", "config.json"])
def test_a_folder_knows_what_it_held(sealed: Path, name: str) -> None:
    assert flaw_in(sealed) == ""
    content = (sealed / name).read_bytes()
    for spoilt in (b"", content[:-1], bytes(len(content))):
        (sealed / name).write_bytes(spoilt)
        assert flaw_in(sealed).startswith(f"{name} has "), spoilt[:20]


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_folder_without_a_whole_manifest_is_not_whole(sealed: Path, content: str | None) -> None:
    (sealed / MANIFEST).unlink()
    if content is not None:
        (sealed / MANIFEST).write_text(content)
    assert flaw_in(sealed) == f"{MANIFEST} {'is missing' if content is None else 'cannot be read'}"


def checkpoint(root: Path, step: int, whole: bool = True) -> Path:
    folder = checkpoints.folder_of(root, step)
    (folder / checkpoints.MODEL).mkdir(parents=True)
    (folder / checkpoints.MODEL / "config.json").write_text("{}")
    if whole:
        seal(folder)
    return folder


@pytest.mark.parametrize(
    ("sealed_steps", "unsealed", "said", "expected"),
    [
        ((5, 10), (), "10", 10),
        ((5, 10), (), "99", 10),  # no such checkpoint
        ((5,), (10,), "5", 5),  # killed while it was written
        ((5,), (10,), "10", 10),  # killed between verl's note and the manifest
        ((), (), "10", 0),
    ],
)
def test_the_newest_whole_checkpoint_counts_and_no_note(
    tmp_path: Path, sealed_steps: tuple[int, ...], unsealed: tuple[int, ...], said: str, expected: int
) -> None:
    for step in (*sealed_steps, *unsealed):
        checkpoint(tmp_path, step, whole=step in sealed_steps)
    (tmp_path / checkpoints.NOTE).write_text(said)
    assert checkpoints.newest(tmp_path, content=True) == expected


def test_what_verl_removes_or_has_forgotten_after_a_resume_is_none_any_more(tmp_path: Path) -> None:
    for step in (1, 5, 10):
        checkpoint(tmp_path, step)
    shutil.rmtree(checkpoints.folder_of(tmp_path, 5) / "actor")
    checkpoint(tmp_path, 15, whole=False)
    checkpoints.seal_newest(tmp_path, 15, 2)
    assert checkpoints.newest(tmp_path, content=True) == 15
    assert checkpoints.steps(tmp_path) == [15, 10]


def test_a_broken_line_besides_a_steps_episodes_is_counted(tmp_path: Path) -> None:
    rl = RlFolder(tmp_path)
    checkpoint(rl.checkpoints, 1)
    append_metrics(rl.metrics, 1, {"rollout/episodes": 1})
    rl.episodes.mkdir()
    rl.step_episodes(1).write_text('{}\n{"cut')
    with pytest.raises(Refusal, match=r"000001.jsonl has 1 of 2 .*; use fresh=true"):
        discard_damaged(tmp_path)


def test_a_model_of_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """Its optimiser may be gone: only the model is read."""
    rl = RlFolder(tmp_path)
    (tmp_path / "result.json").write_text("{}")
    (checkpoint(rl.checkpoints, 5, whole=False) / "data.pt").write_text("order")
    checkpoints.seal_newest(rl.checkpoints, 5, None)
    (checkpoints.folder_of(rl.checkpoints, 5) / "data.pt").unlink()
    assert locate.checkpoint(tmp_path) == rl.model(5)
    (rl.model(5) / "config.json").write_text("")
    with pytest.raises(locate.ModelError, match=r"huggingface/config.json has 0 bytes"):
        locate.checkpoint(tmp_path)


def test_a_converted_model_that_is_damaged_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "CONVERTED", {"no_such_converter": ()})
    converted = tmp_path / "models" / "no_such_converter"
    converted.mkdir(parents=True)
    (converted / "config.json").write_text("{}")
    seal(converted)
    assert locate.resolve_model("packaged://no_such_converter", tmp_path) == str(converted)
    (converted / "config.json").write_text("")
    with pytest.raises(StageFailed, match="No module named"):
        locate.resolve_model("packaged://no_such_converter", tmp_path)


# ---- lines


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ('{"a": 1}\n{"a": 2}\n', [True, True]),
        ('{"a": 1}\n{"a": 2}', [True, True]),
        ('{"a": 1}\n{"a": ', [True, False]),
        ('{"a": 1}\nrubbish\n{"a": NaN}\n', [True, False, True]),
        ('\x00\n"text"\nnull\n', [False, False, True]),
        ("", []),
    ],
)
def test_which_lines_are_whole(tmp_path: Path, text: str, whole: list[bool]) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    assert whole_lines(tmp_path / "a.jsonl") == whole
    assert len(read_lines(tmp_path / "a.jsonl")) == sum(whole)


def test_a_line_cut_by_a_kill_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    with stage(tmp_path, "games"):
        pass
    with (tmp_path / "stages.jsonl").open("a") as file:
        file.write('{"stage": "sft", "sec')
    assert discard_damaged(tmp_path) == []
    with stage(tmp_path, "sft"):
        pass
    assert list(stage_seconds(tmp_path)) == ["games", "sft"]
