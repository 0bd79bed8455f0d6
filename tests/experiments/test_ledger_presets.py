"""Every row of table 9 at a small scale, killed and taken up again: the ledger is what lies on
disk, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import small

from turngrid.experiments.evaluation.result import RunResult
from turngrid.experiments.stages.ledger import Entry, read_ledger
from turngrid.rollouts.store import read_episodes

pytestmark = pytest.mark.slow
STEPS, BATCH, SAMPLES = 3, 4, 4
SCALE = [  # 20 units in all, 2 a demonstration
    "budget.units=20",
    "budget.demo_cost=2",
    f"budget.rl_steps={STEPS}",
    "trainer.save_freq=2",  # so that a kill costs a step
    "eval.games=4",
]
# row -> (its share, demonstrations, distinct games: what is left, as far as 3 steps of 4 prompts
# see them)
ROWS = {
    "sft0_rl1000": (0.0, 0, 12),
    "sft20_rl800": (0.2, 2, 12),
    "sft40_rl600": (0.4, 4, 12),
    "sft60_rl400": (0.6, 6, 8),
    "sft80_rl200": (0.8, 8, 4),
    "sft100_rl0": (1.0, 10, 0),
}


def _a_step_is_logged(output: Path) -> bool:
    return any(path.stat().st_size for path in output.glob("*/rl/metrics.jsonl"))


def _imitating(output: Path) -> bool:
    return bool(list(output.glob("*/logs/sft.log")))


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.timeout(1200)
def test_the_ledger_is_what_lies_on_disk(row: str, tmp_path: Path) -> None:
    share, demonstrations, games = ROWS[row]
    overrides = [f"budget={row}", *SCALE, f"budget.sft_share={share}"]  # small.py has a share of its own
    moment: Callable[[Path], bool] = _a_step_is_logged if games else _imitating
    process = small.launch(tmp_path, *overrides)
    small.wait_for(lambda: moment(tmp_path), 500)
    small.kill(process)
    folder = small.finish(tmp_path, *overrides)
    entries = read_ledger(folder / "ledger.jsonl")
    assert charged(entries, "demonstration") == (demonstrations, demonstrations * 2)
    assert charged(entries, "rl_episode") == (STEPS * BATCH * SAMPLES if games else 0, games)
    assert [entry.step for entry in entries if entry.kind == "rl_episode"] == ([1, 2, 3] if games else [])
    assert_on_disk(folder, entries)
    result = RunResult.read(folder)
    assert result is not None
    assert result.units == demonstrations * 2 + games <= 20
    assert result.notes["spent"]["units_by_rollouts"] == demonstrations * 2 + charged(entries, "rl_episode")[0]
    if games:
        assert sum(entry.uncharged for entry in entries if entry.kind == "discarded") >= BATCH * SAMPLES


def charged(entries: list[Entry], kind: str) -> tuple[int, float]:
    mine = [entry for entry in entries if entry.kind == kind]
    return sum(entry.count for entry in mine), sum(entry.units for entry in mine)


def assert_on_disk(folder: Path, entries: list[Entry]) -> None:
    """Counted here, from the files themselves."""
    files = {
        "demonstration": list((folder / "episodes").glob("*.jsonl")),
        "rl_episode": list((folder / "rl" / "episodes").glob("*.jsonl")),
        "discarded": list((folder / "rl" / "discarded").glob("*/episodes/**/*.jsonl")),
    }
    for kind, paths in files.items():
        episodes = [episode for path in paths for episode in read_episodes(path)]
        tokens = sum(len(turn.action_ids) for episode in episodes for turn in episode.turns)
        mine = [entry for entry in entries if entry.kind == kind]
        assert sum(entry.count for entry in mine) == len(episodes), kind
        assert sum(entry.tokens for entry in mine) == tokens, kind
        if kind == "rl_episode":
            assert sum(entry.games for entry in mine) == len({episode.task for episode in episodes})
