"""Sealed folders, lines that cannot be read, and what only a damaged file shows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import save_file

from experiments.stages.ledger import ledger
from records.files import checkpoints, inventory
from records.files.json_lines import read_lines
from records.files.manifest import MANIFEST, flaw_in, seal
from records.mending.mend import mend
from records.models import locate
from records.process.child import StageFailed
from records.resume import RlFolder
from records.stages import stage, stage_seconds
from rollouts.episode import Episode, Outcome, Turn
from rollouts.store import write_episodes
from tasks.run import Run
from verl_plugin.training.running_total import RunningTotal

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
@pytest.mark.parametrize("unsealed", [False, True], ids=["sealed", "without a manifest"])
def test_a_folder_knows_what_it_held(sealed: Path, name: str, unsealed: bool) -> None:
    if unsealed:
        (sealed / MANIFEST).unlink()
    before = flaw_in(sealed, content=True)
    assert before is None or (before.unsealed and before.path.name == MANIFEST)
    content = (sealed / name).read_bytes()
    for spoilt in (content[: len(content) // 2], b"", content[:-1], bytes(len(content))):
        (sealed / name).write_bytes(spoilt)
        flaw = flaw_in(sealed, content=True)
        assert flaw is not None and (flaw.path, flaw.unsealed) == (sealed / name, False), spoilt[:20]


def test_sizes_alone_do_not_show_rubbish_of_the_same_length(sealed: Path) -> None:
    (sealed / "config.json").write_text('{"layers": 3}')
    assert flaw_in(sealed, content=False) is None
    flaw = flaw_in(sealed, content=True)
    assert flaw is not None and flaw.wrong == "has another content than was written (sha256)"


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
        ((5, 10), (), "", 10),
        ((5, 10), (), "1", 10),
        ((5,), (10,), "5", 5),  # killed while it was written
        ((5,), (10,), "10", 10),  # killed between verl's note and the manifest
        ((), (10,), "10", 10),  # of an older version
        ((), (), "10", 0),
    ],
)
def test_the_newest_whole_checkpoint_counts_and_no_note(
    tmp_path: Path, sealed_steps: tuple[int, ...], unsealed: tuple[int, ...], said: str, expected: int
) -> None:
    for step in (*sealed_steps, *unsealed):
        checkpoint(tmp_path, step, whole=step in sealed_steps)
    (tmp_path / checkpoints.TRACKER).write_text(said)
    assert checkpoints.newest(tmp_path, content=True).step == expected


def test_what_verl_removes_for_a_new_checkpoint_is_none_any_more(tmp_path: Path) -> None:
    for step in (5, 10):
        checkpoint(tmp_path, step)
    shutil.rmtree(checkpoints.folder_of(tmp_path, 5) / "actor")
    checkpoint(tmp_path, 15, whole=False)
    checkpoints.seal_newest(tmp_path, 15)
    assert checkpoints.newest(tmp_path, content=True) == checkpoints.Newest(15)
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
    with pytest.raises(locate.ModelError, match="huggingface/config.json is empty"):
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
    ("text", "whole", "broken", "torn"),
    [
        ('{"a": 1}\n{"a": 2}\n', [1, 2], [], False),
        ('{"a": 1}\n{"a": 2}', [1, 2], [], False),
        ('{"a": 1}\n{"a": ', [1], [], True),
        ('{"a": 1}\nrubbish\n{"a": NaN}\n', [1, 3], [2], False),
        ('{"a": 1}\nrubbish\n{"a": ', [1], [2], True),
        ('\x00\n"text"\n', [], [1, 2], False),
        ("", [], [], False),
    ],
)
def test_a_torn_last_line_is_no_broken_one(
    tmp_path: Path, text: str, whole: list[int], broken: list[int], torn: bool
) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    lines = read_lines(tmp_path / "a.jsonl")
    assert (list(lines.whole), list(lines.broken), lines.torn) == (whole, broken, torn)


def test_what_a_kill_tore_is_dropped_without_a_word(tmp_path: Path) -> None:
    with stage(tmp_path, "games"):
        pass
    with (tmp_path / "stages.jsonl").open("a") as file:
        file.write('{"stage": "sft", "sec')
    assert mend(tmp_path, "sparse") == []
    with stage(tmp_path, "sft"):
        pass
    assert list(stage_seconds(tmp_path)) == ["games", "sft"]


# ---- books


def episode(game: int, sample: int, step: int) -> Episode:
    turn = Turn("You see a door.", "look", action_ids=[1, 2, 3], rewards={"sparse": float(sample)})
    return Episode(f"task-{game}", game, "train", "Win.", [], [9], [turn], Outcome.WON, sample=sample, step=step)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Two steps of two games with two samples each, and the checkpoint of the second."""
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
    checkpoint(rl.checkpoints, 2)
    (rl.checkpoints / checkpoints.TRACKER).write_text("2")
    inventory.take(tmp_path)
    return tmp_path


def charged(folder: Path) -> list[tuple[int, int, float, int, int]]:
    entries = ledger(Run(CONFIG, folder))
    return [(entry.step, entry.count, entry.units, entry.tokens, entry.games) for entry in entries]


@pytest.mark.parametrize("count", ["rollouts", "games"])
@pytest.mark.parametrize("left", [0, 1, 3], ids=lambda left: f"{left} episodes left")
def test_episodes_that_are_lost_stay_charged(trained: Path, left: int, count: str) -> None:
    CONFIG.budget.count = count  # the fixture's metrics count both
    before, totals = charged(trained), RunningTotal(CONFIG, trained).metrics()
    record = RlFolder(trained).step_episodes(2)
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join([*lines[:left], b"rubbish\n"]))
    (line,) = mend(trained, "sparse")
    assert line.startswith("rl/episodes/000002.jsonl is ") and "charged by its metrics" in line
    assert charged(trained) == before
    assert RunningTotal(CONFIG, trained).metrics() == totals


@pytest.mark.parametrize("spoilt", [1, 2])
def test_a_step_whose_metrics_are_lost_has_what_its_episodes_tell(trained: Path, spoilt: int) -> None:
    metrics = RlFolder(trained).metrics
    lines = metrics.read_text().splitlines()
    lines[spoilt] = lines[spoilt][:-5]
    metrics.write_text("\n".join(lines) + "\n")
    (told,) = mend(trained, "sparse")
    assert told.startswith("rl/metrics.jsonl is ") and f"of step {spoilt} only what its episodes tell is left" in told
    found = {line["step"]: line for line in map(json.loads, metrics.read_text().splitlines())}
    assert list(found) == [0, 1, 2] and "actor/loss" not in found[spoilt]
    assert (found[spoilt]["success/train"], found[spoilt]["reward/sparse/episode"]) == (1.0, 0.5)
    assert found[3 - spoilt]["actor/loss"] == 0.5
    assert [(count, tokens, games) for _, count, _, tokens, games in charged(trained)] == [(4, 12, 2)] * 2
