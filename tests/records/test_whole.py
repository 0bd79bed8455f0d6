"""Sealed folders, checkpoints, broken lines, and what a run does about damage."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import save_file

from turngrid.experiments.stages.ledger import ledger
from turngrid.records.damage import discard_damaged
from turngrid.records.files import checkpoints
from turngrid.records.files.checkpoints import MANIFEST, flaw_in, seal
from turngrid.records.files.json_lines import broken_line, read_lines
from turngrid.records.models import locate
from turngrid.records.process.child import StageFailed
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.resume import RlFolder, discard_beyond_checkpoint
from turngrid.records.stages import stage, stage_seconds
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import write_episodes
from turngrid.tasks.run import Run
from turngrid.verl_plugin.training.step_records import RunningTotal

CONFIG = OmegaConf.create(
    {
        "budget": {"count": "rollouts", "episode_cost": 1, "demo_cost": 10, "units": 100},
        "actor_rollout_ref": {"rollout": {"n": 2}},
        "model": {"path": "asset://tiny"},
        "turn_reward": {"name": "sparse"},
    }
)


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
    assert checkpoints.newest(tmp_path, content=True).step == expected


def test_what_verl_removes_for_a_new_checkpoint_is_none_any_more(tmp_path: Path) -> None:
    for step in (5, 10):
        checkpoint(tmp_path, step)
    shutil.rmtree(checkpoints.folder_of(tmp_path, 5) / "actor")
    checkpoint(tmp_path, 15, whole=False)
    checkpoints.seal_newest(tmp_path, 15)
    assert checkpoints.newest(tmp_path, content=True) == checkpoints.Newest(15, {})
    assert checkpoints.steps(tmp_path) == [15, 10]


def test_a_model_of_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    """Its optimiser may be gone: only the model is read."""
    rl = RlFolder(tmp_path)
    (tmp_path / "result.json").write_text("{}")
    (checkpoint(rl.checkpoints, 5, whole=False) / "data.pt").write_text("order")
    checkpoints.seal_newest(rl.checkpoints, 5)
    (checkpoints.folder_of(rl.checkpoints, 5) / "data.pt").unlink()
    assert locate.checkpoint(tmp_path) == rl.model(5)
    (rl.model(5) / "config.json").write_text("")
    with pytest.raises(locate.ModelError, match=r"huggingface/config.json has 0 bytes"):
        locate.checkpoint(tmp_path)


def test_a_converted_model_that_is_not_whole_is_converted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "CONVERTED", ("no_such_converter",))
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
    ("text", "whole", "broken"),
    [
        ('{"a": 1}\n{"a": 2}\n', 2, None),
        ('{"a": 1}\n{"a": 2}', 2, None),
        ('{"a": 1}\n{"a": ', 1, 2),
        ('{"a": 1}\nrubbish\n{"a": NaN}\n', 2, 2),
        ('\x00\n"text"\nnull\n', 1, 1),
        ("", 0, None),
    ],
)
def test_whole_lines_and_the_first_broken_one(tmp_path: Path, text: str, whole: int, broken: int | None) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    assert (len(read_lines(tmp_path / "a.jsonl")), broken_line(tmp_path / "a.jsonl")) == (whole, broken)


def test_a_line_cut_by_a_kill_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    with stage(tmp_path, "games"):
        pass
    with (tmp_path / "stages.jsonl").open("a") as file:
        file.write('{"stage": "sft", "sec')
    assert discard_damaged(tmp_path) == []
    with stage(tmp_path, "sft"):
        pass
    assert list(stage_seconds(tmp_path)) == ["games", "sft"]


# ---- records of a step


def episode(game: int, sample: int, step: int) -> Episode:
    turn = Turn("You see a door.", "look", action_ids=[1, 2, 3], rewards={"sparse": float(sample)})
    return Episode(f"task-{game}", game, "train", "Win.", [], [9], [turn], Outcome.WON, sample=sample, step=step)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Two steps of two games with two samples each, and a checkpoint of each step."""
    rl, total = RlFolder(tmp_path), RunningTotal(CONFIG, tmp_path)
    rl.root.mkdir()
    rl.metrics.write_text('{"step": 0, "success/validation": 0.5}\n')  # before the first step
    for step in (1, 2):
        games = (2 * step, 2 * step + 1)
        write_episodes(rl.step_episodes(step), [episode(game, sample, step) for game in games for sample in range(2)])
        total.add(rl.step_episodes(step))
        line = {"step": step, "success/train": 1.0, "rollout/episodes": 4.0, "actor/loss": 0.5, **total.metrics()}
        with rl.metrics.open("a") as file:
            file.write(json.dumps(line) + "\n")
        checkpoint(rl.checkpoints, step)
    return tmp_path


def charged(folder: Path) -> list[int]:
    return [entry.step for entry in ledger(Run(CONFIG, folder)) if entry.units]


@pytest.mark.parametrize("left", [0, 3])
@pytest.mark.parametrize("end", [b"", b"rubbish\n"])
def test_a_step_with_damaged_episodes_is_done_again(trained: Path, left: int, end: bytes) -> None:
    rl = RlFolder(trained)
    record = rl.step_episodes(2)
    record.write_bytes(b"".join([*record.read_bytes().splitlines(keepends=True)[:left], end]))
    line, *others = discard_damaged(trained)
    assert f"{left} of 4" in line and "from step 1" in line and len(others) == bool(end)
    assert (trained / "discarded/000/rl/checkpoints/global_step_2").is_dir()
    assert discard_beyond_checkpoint(rl) == 1 and charged(trained) == [1]
    assert discard_damaged(trained) == []


def test_a_step_whose_metrics_are_lost_is_done_again(trained: Path) -> None:
    metrics = RlFolder(trained).metrics
    metrics.write_text("\n".join(metrics.read_text().splitlines()[:2]) + '\n{"step": 2, "succ')
    (line,) = discard_damaged(trained)
    assert "metrics.jsonl lacks step 2" in line and "from step 1" in line
    assert discard_beyond_checkpoint(RlFolder(trained)) == 1


def test_without_an_earlier_checkpoint_the_run_is_refused_and_nothing_moves(trained: Path) -> None:
    RlFolder(trained).step_episodes(1).unlink()
    with pytest.raises(Refusal, match="000001.jsonl.*fresh=true"):
        discard_damaged(trained)
    assert not (trained / "discarded").exists() and RlFolder(trained).saved_step() == 2


def test_credit_that_is_damaged_is_set_aside_alone(trained: Path) -> None:
    credit = RlFolder(trained).credit / "000002.jsonl"
    credit.parent.mkdir()
    credit.write_text("null\n[0.5")
    (line,) = discard_damaged(trained)
    assert line.startswith("rl/credit/000002.jsonl ") and not credit.exists()
    assert (trained / "discarded/000/rl/credit/000002.jsonl").read_text() == "null\n[0.5"
    assert RlFolder(trained).saved_step() == 2


def test_a_finished_run_is_not_checked(trained: Path) -> None:
    (trained / "result.json").write_text("{}")
    RlFolder(trained).step_episodes(1).unlink()
    assert discard_damaged(trained) == []
