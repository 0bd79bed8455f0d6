"""One sample of a group that cannot be saved: the whole group goes, another takes its place, and it
is counted; what every tracker was told of that run; and what is on record as credit is what its
losses were given, token by token."""

import json
import os
import re
import sqlite3
from pathlib import Path

import flaky_environment
import pytest
import reward_probe
import small
import torch
import update_probe
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb_log import WandbRun, read_runs

from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.credit import Credit, read_credit
from turngrid.records.metrics import FAMILIES
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.store import read_episodes

# The fast suite has groups that fail (test_rollout_groups.py), real trackers (test_tracking.py),
# credit beside what losses are given (test_steps.py), shaping (test_shaping.py)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run's losses write down what they are given."""
    return tmp_path_factory.mktemp("heard")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, heard: Path) -> tuple[Path, str]:
    output, notes, site = (tmp_path_factory.mktemp(name) for name in ("failing", "notes", "site"))
    (site / "sitecustomize.py").write_text("import update_probe\nupdate_probe.install()\n", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join(map(str, (site, Path(__file__).parent, small.ROOT / "tests", small.ROOT)))
        )
        patch.setenv(flaky_environment.FOLDER, str(notes))
        patch.setenv(update_probe.FOLDER, str(heard))
        folder = small.finish(
            output,
            "algo=ppo",
            *reward_probe.SHAPING,
            "env.name=flaky_environment:Flaky",
            "env.workers=1",
            "budget=rl_only",
            "budget.sft_share=0",
            "budget.rl_steps=2",
            "eval.games=1",
            "tracking=wandb_offline",
            "trainer.logger=[console,tensorboard,wandb,trackio]",
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
    assert step["verl/training/rollout_failure/evicted_samples"] == 1
    charged, _ = [entry for entry in small.lines(folder / "ledger.jsonl") if entry["kind"] == "rl_episode"]
    assert (charged["count"], charged["units"]) == (16, 4)


def test_its_cause_is_logged_with_its_place(run: tuple[Path, str]):
    log = (run[0] / "logs" / "rl.log").read_text()
    assert re.search(r"dropped: .*KeyError: .*a bad game.* at .*/flaky_environment.py:\d+: raise KeyError", log)


# ---- what the trackers were told


@pytest.fixture(scope="session")
def told(run: tuple[Path, str]) -> WandbRun:
    (found,) = read_runs(run[0])
    return found


def logged(folder: Path) -> list[dict[str, float]]:
    lines = small.lines(folder / "rl" / "metrics.jsonl")
    return [{name: value for name, value in line.items() if value is not None} for line in lines]


def test_every_log_has_the_same_numbers_under_the_same_names(run: tuple[Path, str], told: WandbRun):
    folder, _ = run
    with sqlite3.connect(folder.parent / "trackio" / "turngrid.db") as base:
        rows = base.execute("select step, metrics from metrics where run_name = ? order by id", [f"{folder.name} rl"])
        trackio = [{"step": step, **json.loads(text)} for step, text in rows]
    wandb = [without_own(line) for line in told.stage("rl")]
    assert logged(folder) == trackio == wandb
    assert {name.split("/")[0] for name in logged(folder)[0]} - {"step"} <= set(FAMILIES)


def without_own(line: dict) -> dict:
    return {name: value for name, value in line.items() if not name.startswith("_") and name != "rl/step"}


def test_tensorboard_has_them_too(run: tuple[Path, str]):
    folder, _ = run
    events = EventAccumulator(str(folder / "tensorboard" / "rl"))
    events.Reload()
    lines = logged(folder)
    assert set(events.Tags()["scalars"]) == set(lines[0]) - {"step"} | set(lines[1]) - {"step"}
    for name in ("success/train", "budget/units", "credit/advantage/std", "timing/step"):
        drawn = [(event.step, event.value) for event in events.Scalars(name)]
        assert drawn == [(line["step"], pytest.approx(line[name], rel=1e-6)) for line in lines]


def test_what_was_spent_is_what_the_ledger_charges(run: tuple[Path, str]):
    folder, _ = run
    charged = [entry for entry in small.lines(folder / "ledger.jsonl") if entry["kind"] == "rl_episode"]
    for line, upto in zip(logged(folder), (charged[:1], charged), strict=True):
        assert line["budget/units"] == sum(entry["units"] for entry in upto)
        assert line["budget/episodes"] == sum(entry["count"] for entry in upto)
        assert line["budget/tokens"] == sum(entry["tokens"] for entry in upto)


def test_the_evaluation_is_a_stage_with_a_step_for_each_model(run: tuple[Path, str], told: WandbRun):
    folder, _ = run
    result, evaluation = RunResult.read(folder), told.stage("evaluation")
    assert result is not None
    assert told.group == told.name == folder.name
    assert [(line["policy"], line["step"]) for line in evaluation] == [("base", 0), ("rl", 1)]
    for line, stage in zip(evaluation, result.stages, strict=True):
        shown = [line[f"success/test/w2-o3-q4{bound}"] for bound in ("", "/low", "/high")]
        assert shown == [stage.interval.mean, stage.low, stage.high]


# ---- what is on record as credit


Row = tuple[tuple[int, ...], tuple[int, ...]]


def used(heard: Path, loss: str) -> dict[Row, dict[str, torch.Tensor]]:
    """By the row's prompt and response ids, what a loss was given."""
    rows = {}
    for file in heard.glob(f"{loss}-*.pt"):
        found = torch.load(file)
        for place, row in enumerate(zip(found["prompts"], found["responses"], strict=True)):
            rows[tuple(tuple(ids.tolist()) for ids in row)] = {name: column[place] for name, column in found.items()}
    return rows


def row_of(episode: Episode) -> Row:
    return tuple(episode.prompt_ids), tuple(id for turn in episode.turns for id in turn.action_ids + turn.context_ids)


def credited(folder: Path) -> list[tuple[Episode, Credit]]:
    found = []
    for step in ("000001", "000002"):
        credits = read_credit(folder / "rl" / "credit" / f"{step}.jsonl")
        episodes = list(read_episodes(folder / "rl" / "episodes" / f"{step}.jsonl"))
        assert len(episodes) == len(credits) == 16
        assert all(credit is not None for credit in credits)
        found += zip(episodes, credits, strict=True)
    return found


def at_sampled(episode: Episode, row: torch.Tensor) -> list[float]:
    """A row's numbers where the episode says that the policy wrote the token."""
    sampled = [place for turn in episode.turns for place in [1] * len(turn.action_ids) + [0] * len(turn.context_ids)]
    assert len(row) == len(sampled)
    return [number for number, wrote in zip(row.tolist(), sampled, strict=True) if wrote]


def test_advantages_are_those_of_the_policy_loss_at_the_same_tokens(run: tuple[Path, str], heard: Path):
    rows = used(heard, "ppo_loss")
    for episode, credit in credited(run[0]):
        row = rows[row_of(episode)]
        assert sum(row["response_mask"].tolist()) == len(credit.advantages)
        assert credit.advantages == pytest.approx(at_sampled(episode, row["advantages"].float()), rel=1e-6)
        assert len(set(credit.advantages)) > 1  # so that a shift by one token would show


def test_values_and_returns_are_those_of_the_value_loss(run: tuple[Path, str], heard: Path):
    rows = used(heard, "value_loss")
    for episode, credit in credited(run[0]):
        row = rows[row_of(episode)]
        assert credit.values == pytest.approx(at_sampled(episode, row["values"].float()), rel=1e-6)
        assert credit.returns == pytest.approx(at_sampled(episode, row["returns"].float()), rel=1e-6)


def test_the_shaped_reward_is_returned_from_the_last_token_of_its_turn(run: tuple[Path, str]):
    """With gamma 1 a token's return is all that is paid from its turn on; the first step has no KL
    to pay."""
    for episode, credit in credited(run[0])[:16]:
        sparse = [turn.rewards["sparse"] for turn in episode.turns]
        prices = [-reward_probe.PRICE * (not turn.valid) for turn in episode.turns]
        bonus = reward_probe.BONUS * 0.1 * len(episode.turns)
        wanted = [reward + price for reward, price in zip(sparse, prices, strict=True)]
        wanted[-1] += bonus
        assert [turn.trained("sparse") for turn in episode.turns] == pytest.approx(wanted)
        returns = [sum(wanted[number:]) for number, turn in enumerate(episode.turns) for _ in turn.action_ids]
        assert credit.returns == pytest.approx(returns, abs=1e-4)
        assert episode.shaping == pytest.approx({"invalid_action": sum(prices), "turn_bonus": bonus})


def test_shaping_changes_no_success_and_no_evaluation(run: tuple[Path, str]):
    first, episodes = logged(run[0])[0], [episode for episode, _ in credited(run[0])[:16]]
    assert first["success/train"] == sum(episode.won for episode in episodes) / 16
    assert first["reward/trained/episode"] == pytest.approx(first["reward/trained/mean"], abs=1e-6)  # ours and verl's
    assert first["shaping/turn_bonus/mean"] == pytest.approx(sum(e.shaping["turn_bonus"] for e in episodes) / 16)
    for episode in read_episodes(run[0] / "evaluation" / "rl.jsonl"):
        assert not episode.shaping and all(set(turn.rewards) == {"sparse"} for turn in episode.turns)
