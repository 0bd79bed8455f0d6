"""A run that begins with another run's model, and learns from its wins: through the front door,
with real stages."""

from pathlib import Path

import pytest
import small

from turngrid.experiments.stages.ledger import read_ledger
from turngrid.rollouts.store import read_episodes

pytestmark = pytest.mark.slow
WINNING = [
    "env.max_turns=12",
    "budget.demo_cost=1",
    "model.sft.lr=1e-3",
    "model.sft.epochs=3",
]  # small.py's run seldom wins


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.finish(tmp_path_factory.mktemp("first"), *WINNING, "budget.units=48")


@pytest.fixture(scope="module")
def second(first: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    drawn = ["demos.source=episodes", f"demos.run='{first}'", "demos.max_invalid=12", "demos.per_game=2"]
    budget = ["budget=sft_only", "budget.sft_share=1", "budget.units=2"]
    return small.finish(tmp_path_factory.mktemp("second"), *WINNING, f"model.path='{first}'", *budget, *drawn)


@pytest.mark.timeout(1500)
def test_its_base_plays_as_the_other_runs_last_checkpoint(first: Path, second: Path) -> None:
    ours, theirs = second / "evaluation" / "base.jsonl", first / "evaluation" / "rl.jsonl"
    assert small.without_clocks(ours) == small.without_clocks(theirs)


def test_its_demonstrations_are_wins_of_the_other_run_with_their_tokens(first: Path, second: Path) -> None:
    written = list(read_episodes(second / "episodes" / "demonstrations.jsonl"))
    played = [e for path in (first / "rl" / "episodes").glob("*.jsonl") for e in read_episodes(path)]
    assert len(written) == 2
    for demonstration in written:
        assert demonstration.won
        assert demonstration.turns in [episode.turns for episode in played]
    assert (second / "sft" / "model" / "model.safetensors").read_bytes() != (
        first / "sft" / "model" / "model.safetensors"
    ).read_bytes()


def test_what_the_other_run_cost_is_listed_and_not_charged(first: Path, second: Path) -> None:
    entries = {entry.kind: entry for entry in read_ledger(second / "ledger.jsonl")}
    spent = sum(entry.units for entry in read_ledger(first / "ledger.jsonl"))
    for kind in ("prior", "demonstration_source"):
        assert (entries[kind].units, entries[kind].uncharged) == (0, spent)
        assert str(first) in entries[kind].note
    assert sum(entry.units for entry in entries.values()) == 2
