"""The ledger of folders as runs leave them: what is charged, what is listed, both totals."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from turngrid.experiments.stages.ledger import Entry, ledger, read_ledger, spent
from turngrid.records.files.json_lines import write_lines
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import write_episodes
from turngrid.tasks.run import Run
from turngrid.verl_plugin.training.step_records import RunningTotal


def episodes(*games: int, step: int = 0) -> list[Episode]:
    """One of each game, two turns of three tokens and a second each."""
    turns = [Turn("a door.", "go", [1, 2, 3], act_seconds=0.75, env_seconds=0.25)] * 2
    return [Episode(f"doors/{game}", game, "train", "leave", [], [1], turns, Outcome.WON, step=step) for game in games]


def config(count: str, model: str = "asset://tiny") -> DictConfig:
    return OmegaConf.create(
        {
            "budget": {"units": 100.0, "demo_cost": 10.0, "episode_cost": 1.0, "count": count, "experience_cost": None},
            "demos": {"source": "expert", "experience": None},
            "model": {"path": model, "sft": {"epochs": 2}},
            "actor_rollout_ref": {"rollout": {"n": 4}},
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two demonstrations; steps 1 and 2, the second with a dropped group and retries; a step 3 and
    a validation that a kill threw away; a validation; an evaluation."""
    run = tmp_path / "run"
    write_episodes(run / "episodes" / "demonstrations.jsonl", episodes(8, 9))
    write_episodes(run / "rl" / "episodes" / "000001.jsonl", episodes(1, 1, 2, 2, step=1))
    write_episodes(run / "rl" / "episodes" / "000002.jsonl", episodes(2, 2, 3, 3, step=2))
    write_episodes(run / "rl" / "discarded" / "000" / "episodes" / "000003" / "0.jsonl", episodes(3, 3, step=3))
    write_episodes(run / "rl" / "discarded" / "000" / "validation" / "000003.jsonl", episodes(4, step=3))
    write_episodes(run / "rl" / "validation" / "000002.jsonl", episodes(4, 4, step=2))
    write_episodes(run / "evaluation" / "rl.jsonl", episodes(5, 6, 7))
    write_episodes(run / "evaluation" / "w4" / "rl.jsonl", episodes(5))
    metrics = [{"step": 1, "timing/step": 2.5}, {"step": 2, "timing/step": 3.5, "rollout/failed_groups": 1.0}]
    (run / "rl" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    stages = [("demonstrations", 4.0, 100.0), ("sft", 7.0, 110.0), ("sft", 0.0, 999.0)]
    lines = [{"stage": name, "seconds": seconds, "outcome": "done", "ended": end} for name, seconds, end in stages]
    (run / "stages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run / "sft" / "model").mkdir(parents=True)
    (run / "sft" / "model" / "config.json").write_text("{}")
    (run / "attempts.jsonl").write_text("")
    return run


def row(entry: Entry) -> tuple[str, int, int, int, float, float]:
    return entry.kind, entry.step, entry.count, entry.games, entry.units, entry.uncharged


@pytest.mark.parametrize(("count", "charged", "units"), [("games", [2, 1], 23), ("rollouts", [4, 4], 28)])
def test_every_line_and_both_totals_by_hand(folder: Path, count: str, charged: list[int], units: float) -> None:
    entries = ledger(Run(config(count), folder))
    assert [row(entry) for entry in entries] == [
        ("demonstration", 0, 2, 2, 20, 0),
        ("sft", 0, 4, 0, 0, 0),
        ("rl_episode", 1, 4, 2, charged[0], 0),
        ("rl_episode", 2, 4, 1, charged[1], 0),
        ("dropped_group", 2, 4, 0, 0, 4),
        ("discarded", 3, 3, 2, 0, 3),
        ("validation", 2, 2, 1, 0, 2),
        ("evaluation/rl", 0, 3, 3, 0, 3),
        ("evaluation/w4/rl", 0, 1, 1, 0, 1),
    ]
    write_lines(folder / "ledger.jsonl", entries)
    assert read_ledger(folder / "ledger.jsonl") == entries
    sums = spent(config(count).budget, entries)
    assert (sums["units"], sums["units_by_games"], sums["units_by_rollouts"]) == (units, 23, 28)
    assert (sums["kinds"]["rl_episode"]["count"], sums["kinds"]["rl_episode"]["wall_seconds"]) == (8, 6.0)


def test_own_turns_alone_are_paid_for(folder: Path) -> None:
    """One episode begins after a replayed turn, one shares a turn, one was only played."""
    plain, begun, branched, spare = episodes(1, 1, 1, 1, step=1)
    begun.prefix = [Turn("a hall.", "go", [4, 5], context_ids=[6, 7], sampled=False)]
    branched.parent, branched.turns = 0, [replace(plain.turns[0], shared=True), plain.turns[1]]
    spare.trained = False
    write_episodes(folder / "rl" / "episodes" / "000001.jsonl", [plain, begun, branched, spare])
    entries = [entry for entry in ledger(Run(config("rollouts"), folder)) if entry.step == 1]
    paid = [(entry.kind, entry.count, entry.units, entry.tokens) for entry in entries]
    assert paid == [("rl_episode", 4, 4.0, 6 + 6 + 3 + 6)]
    total = RunningTotal(config("rollouts"), folder).metrics()
    assert (total["budget/episodes"], total["budget/tokens"]) == (8, 21 + 24)


def test_when_and_how_long(folder: Path) -> None:
    demonstration, sft, first, *_ = ledger(Run(config("games"), folder))
    assert (demonstration.tokens, demonstration.episode_seconds) == (12, 4.0)
    assert (demonstration.wall_seconds, demonstration.ended) == (4.0, 100.0)
    assert (sft.tokens, sft.wall_seconds, sft.ended) == (24, 7.0, 110.0)
    assert first.wall_seconds == 2.5
    assert first.ended == (folder / "rl" / "episodes" / "000001.jsonl").stat().st_mtime


@pytest.mark.parametrize(
    ("model", "count", "units"),
    [
        ("", 2 + 8, 23),  # the whole run
        ("sft/model", 2, 20),  # its demonstrations
        ("rl/checkpoints/global_step_1/actor/huggingface", 2 + 4, 22),  # and one step
    ],
)
def test_a_prior_is_listed_with_its_cost_and_not_charged(folder: Path, model: str, count: int, units: float) -> None:
    OmegaConf.save(config("games"), folder / "config.yaml")
    (folder / model).mkdir(parents=True, exist_ok=True)
    mine = config("games", model=str(folder / model))
    (prior,) = ledger(Run(mine, folder.parent / "mine"))
    assert row(prior) == ("prior", 0, count, prior.games, 0, units)
    assert prior.note == f"not charged: {folder}"
    mine.demos.update(source="episodes", run=str(folder))
    _, source = ledger(Run(mine, folder.parent / "mine"))
    assert row(source) == ("demonstration_source", 0, 2 + 8, source.games, 0, 23)
    folder.rename(folder.parent / "old")
    assert ledger(Run(mine, folder.parent / "mine")) == []
