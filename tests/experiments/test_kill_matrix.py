"""kill -9 in each stage, then the same command: the run ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import small

pytestmark = pytest.mark.slow
SPLITS = ("train", "demonstrations", "test")


def _making_games(output: Path, cache: Path) -> bool:
    return len(list(cache.rglob("game.z8"))) >= 3


def _demonstrating(output: Path, cache: Path) -> bool:
    return bool(list(output.glob("*/tasks/train.jsonl"))) and bool(list(output.glob("*/tasks/test.jsonl")))


def _imitating(output: Path, cache: Path) -> bool:
    return bool(list(output.glob("*/logs/sft.log")))


def _starting_rl(output: Path, cache: Path) -> bool:
    return bool(list(output.glob("*/logs/rl.log")))


def _saving(output: Path, cache: Path) -> bool:
    return bool(list(output.glob("*/rl/checkpoints/global_step_1")))


def _evaluating(output: Path, cache: Path) -> bool:
    return bool(list(output.glob("*/evaluation/base.jsonl")))


# stage -> (when it is killed, what must not be there yet at that moment)
MOMENTS: dict[str, tuple[Callable[[Path, Path], bool], str]] = {
    "games": (_making_games, "tasks/test.jsonl"),
    "demonstrations": (_demonstrating, "episodes/demonstrations.jsonl"),
    "sft": (_imitating, "sft/model"),
    "rl start": (_starting_rl, "rl/metrics.jsonl"),
    "rl checkpoint": (_saving, "evaluation/base.jsonl"),
    "evaluation": (_evaluating, "evaluation/rl.jsonl"),
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.finish(tmp_path_factory.mktemp("unbroken"))


@pytest.mark.parametrize("stage", MOMENTS)
@pytest.mark.timeout(900)
def test_a_run_killed_in_a_stage_ends_as_an_unbroken_one(stage: str, unbroken: Path, tmp_path: Path) -> None:
    moment, not_yet = MOMENTS[stage]
    cache = tmp_path / "cache"
    own_cache = [f"env.cache_dir={cache}"] if stage == "games" else []
    process = small.launch(tmp_path / "runs", *own_cache)
    small.wait_for(lambda: moment(tmp_path / "runs", cache), 400)
    small.kill(process)
    assert not list((tmp_path / "runs").glob(f"*/{not_yet}")), "killed too late to show anything"
    assert_same(small.finish(tmp_path / "runs", *own_cache), unbroken)


def assert_same(folder: Path, unbroken: Path) -> None:
    for split in SPLITS:
        ours, theirs = (small.lines(run / "tasks" / f"{split}.jsonl") for run in (folder, unbroken))
        assert [task["sha256"] for task in ours] == [task["sha256"] for task in theirs]
    weights = "sft/model/model.safetensors"
    assert (folder / weights).read_bytes() == (unbroken / weights).read_bytes()
    episodes = [*(f"rl/episodes/{step:06d}.jsonl" for step in (1, 2, 3)), "evaluation/rl.jsonl"]
    for name in episodes:
        assert small.without_clocks(folder / name) == small.without_clocks(unbroken / name), name
    assert [line["step"] for line in small.lines(folder / "rl" / "metrics.jsonl")] == [1, 2, 3]
    ours, theirs = (small.lines(run / "ledger.jsonl") for run in (folder, unbroken))
    assert sum(entry["units"] for entry in ours) == sum(entry["units"] for entry in theirs)
