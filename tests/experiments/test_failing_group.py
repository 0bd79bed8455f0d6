"""One sample of a group that cannot be saved: the whole group goes, another takes its place, and it is counted."""

from __future__ import annotations

from pathlib import Path

import flaky_world
import pytest
import small


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    output, notes = tmp_path_factory.mktemp("failing"), tmp_path_factory.mktemp("notes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        patch.setenv(flaky_world.FOLDER, str(notes))
        folder = small.finish(
            output,
            "env.name=flaky_world:Flaky",
            "env.workers=1",
            "budget=rl_only",
            "budget.sft_share=0",
            "budget.rl_steps=2",
            "eval.games=1",
            "tracking=wandb_offline",
        )
    return folder, (notes / "victim").read_text()


def test_the_group_is_dropped_whole_and_refilled(run: tuple[Path, str]):
    folder, victim = run
    episodes = small.lines(folder / "rl" / "episodes" / "000001.jsonl")
    games = [episode["seed"] for episode in episodes]
    assert int(victim) not in games
    assert len(games) == 16
    assert {games.count(game) for game in games} == {4}


def test_it_is_counted_and_not_charged(run: tuple[Path, str]):
    folder, _ = run
    step, _ = small.lines(folder / "rl" / "metrics.jsonl")
    assert step["rollout/failed_groups"] == 1
    assert step["training/rollout_failure/evicted_samples"] == 1
    charged, _ = [entry for entry in small.lines(folder / "ledger.jsonl") if entry["kind"] == "rl_episode"]
    assert (charged["count"], charged["units"]) == (16, 4)


def test_an_offline_wandb_run_holds_the_training(run: tuple[Path, str]):
    folder, _ = run
    (log,) = folder.glob("wandb/offline-run-*/*.wandb")
    text = log.read_bytes()
    assert all(word in text for word in (folder.name.encode(), b"success/train", b"rl_only"))
