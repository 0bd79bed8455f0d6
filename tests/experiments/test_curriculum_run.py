"""A real run of a mixture under stages and a horizon; and the same run killed and taken up
again."""

from collections import Counter
from pathlib import Path

import pytest
import small
import torch

pytestmark = pytest.mark.slow  # its pieces are tested on the real loader in tests/verl_plugin
SIMPLE, OTHER = "w2-o3-q4", "w2-o4-q4"
STEPS = 4
OVERRIDES = (
    f"env.tasks=[{SIMPLE},{OTHER}]",
    "curriculum=phases",
    f"curriculum.phases={{1: [{SIMPLE}], 3: [{SIMPLE}, {OTHER}]}}",
    "curriculum.horizon={1: 2, 2: 6}",
    "budget=rl_only",
    "budget.sft_share=0",
    "budget.units=16",
    f"budget.rl_steps={STEPS}",
    "eval.games=4",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.finish(tmp_path_factory.mktemp("mixture"), *OVERRIDES)


def steps(run: Path) -> list[list[dict]]:
    return [small.lines(run / "rl" / "episodes" / f"{step:06d}.jsonl") for step in range(1, STEPS + 1)]


def tasks(episodes: list[dict]) -> Counter[str]:
    return Counter(episode["task"].split("/")[1] for episode in episodes)


def test_each_tasks_share_of_the_games_is_made(run: Path) -> None:
    for split, each in (("train", 8), ("test", 2)):
        games = small.lines(run / "tasks" / f"{split}.jsonl")
        assert Counter(game["task"] for game in games) == {SIMPLE: each, OTHER: each}
        assert [game["task"] for game in games] == [SIMPLE, OTHER] * each


def test_stages_and_horizon_switch_at_the_stated_steps_and_batches_are_stratified(run: Path) -> None:
    """Twelve plays of eight simple games: none comes again before the others of its task."""
    assert [tasks(episodes) for episodes in steps(run)] == [{SIMPLE: 16}] * 2 + [{SIMPLE: 8, OTHER: 8}] * 2
    played = [episode["task"] for episodes in steps(run) for episode in episodes if episode["sample"] == 0]
    simple = [task for task in played if SIMPLE in task]
    assert len(set(simple[:8])) == 8 and len(set(played) - set(simple)) == 4
    turns = [[len(episode["turns"]) for episode in episodes] for episodes in steps(run)]
    assert max(turns[0]) == 2 and all(2 < max(lengths) <= 6 for lengths in turns[1:])


def test_metrics_by_task_agree_with_the_episodes(run: Path) -> None:
    for line, episodes in zip(small.lines(run / "rl" / "metrics.jsonl"), steps(run), strict=True):
        assert line["curriculum/stage"] == (1 if line["step"] < 3 else 2)
        assert line["curriculum/max_turns"] == (2 if line["step"] < 2 else 6)
        for task, count in tasks(episodes).items():
            mine = [episode for episode in episodes if f"/{task}/" in episode["task"]]
            wins = sum(episode["outcome"] == "won" for episode in mine)
            rewards = sum(turn["rewards"]["sparse"] for episode in mine for turn in episode["turns"])
            assert line[f"rollout/episodes_by_task/{task}"] == count == len(mine)
            assert line[f"success/by_task/{task}"] == pytest.approx(wins / count)
            assert line[f"reward/by_task/{task}"] == pytest.approx(rewards / count)
            assert line[f"rollout/turns_by_task/{task}"] == pytest.approx(sum(len(e["turns"]) for e in mine) / count)


def test_the_charge_is_the_games_that_were_seen(run: Path) -> None:
    """Stages left four of the other task's eight games missing_episodes: they stay unspent."""
    ledger = small.lines(run / "ledger.jsonl")
    assert [entry["units"] for entry in ledger if entry["kind"] == "rl_episode"] == [4.0, 4.0, 2.0, 2.0]


def test_the_checkpoint_holds_the_state(run: Path) -> None:
    state = torch.load(run / "rl" / "checkpoints" / f"global_step_{STEPS}" / "data.pt", weights_only=False)
    assert state == {"drawn": {SIMPLE: 12, OTHER: 4}, "curriculum": {}, "solved": {}, "left": []}
