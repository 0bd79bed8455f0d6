"""A whole PPO run in which the model sees a window of each episode: demonstrations, critic, update,
evaluation."""

import os
import sys
from pathlib import Path

import pytest
import small

PROBE = Path(__file__).parents[1]
sys.path.append(str(PROBE))

import reward_probe

from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.credit import read_credit
from turngrid.rollouts.row import to_rows
from turngrid.rollouts.store import read_episodes
from turngrid.rollouts.window import Window, rows_of

pytestmark = pytest.mark.slow
WINDOW = Window(3, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    window = (f"env.window_turns={WINDOW.turns}", f"env.window_keep={WINDOW.keep}")
    methods = ("terms=[epo]", "filter=[void_turns]", "filter.void_turns.void=invalid", *reward_probe.SHAPING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(small.ROOT), str(PROBE)]))
        return small.finish(
            tmp_path_factory.mktemp("windows"), "algo=ppo", "eval.games=4", *window, *methods, timeout_s=1000
        )


@pytest.mark.timeout(1200)
def test_every_episode_is_trained_whole_and_by_its_rows(folder: Path) -> None:
    for step in (1, 2, 3):
        episodes = list(read_episodes(folder / "rl" / "episodes" / f"{step:06d}.jsonl"))
        assert len(episodes) == 16
        for episode, credit in zip(episodes, read_credit(folder / "rl" / "credit" / f"{step:06d}.jsonl"), strict=True):
            sampled = sum(len(turn.action_ids) for turn in episode.turns)
            assert credit is not None
            assert len(credit.advantages) == len(credit.values) == len(credit.returns) == sampled
            rows = to_rows(episode, "sparse")
            assert len(rows) == rows_of(len(episode.turns), WINDOW)
            assert all(row.prompt_ids for row in rows)
            void = any(not turn.valid for turn in episode.turns)
            assert all(
                (advantage is None) is void for advantage in credit.advantages
            )  # muted whole, in each of its rows


def test_shaped_rewards_are_returned_from_the_last_token_of_their_turn(folder: Path) -> None:
    """Whichever row that turn is in; the first step has no KL to pay."""
    credits = read_credit(folder / "rl" / "credit" / "000001.jsonl")
    for episode, credit in zip(read_episodes(folder / "rl" / "episodes" / "000001.jsonl"), credits, strict=True):
        paid = [turn.trained("sparse") for turn in episode.turns]
        assert sum(paid) - sum(turn.rewards["sparse"] for turn in episode.turns) == pytest.approx(
            sum(episode.shaping.values())
        )
        wanted = [sum(paid[number:]) for number, turn in enumerate(episode.turns) for _ in turn.action_ids]
        assert credit is not None and credit.returns == pytest.approx(wanted, abs=1e-4)
    lines = small.lines(folder / "rl" / "metrics.jsonl")
    assert lines[2]["shaping/turn_bonus/mean"] == 0 < lines[1]["shaping/turn_bonus/mean"]


def test_a_step_is_one_update_of_policy_and_critic(folder: Path) -> None:
    steps = small.lines(folder / "rl" / "metrics.jsonl")
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert all(line["rollout/episodes"] == 16 and line["critic/grad_norm"] > 0 for line in steps)


def test_demonstrations_and_evaluation_use_the_window(folder: Path) -> None:
    for file in (folder / "episodes" / "demonstrations.jsonl", folder / "evaluation" / "rl.jsonl"):
        episodes = list(read_episodes(file))
        assert episodes
        for episode in episodes:
            assert sum(bool(turn.prompt_ids) for turn in episode.turns) == rows_of(len(episode.turns), WINDOW) - 1
    assert RunResult.read(folder) is not None
