"""A whole run in a prompt form with thoughts: each turn a row of its own, thoughts not learned
from, actions listed."""

from pathlib import Path

import pytest
import small

from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.credit import read_credit
from turngrid.rollouts.store import read_episodes

pytestmark = pytest.mark.slow
SETTINGS = (
    "prompt=react",
    "prompt.history=1",
    "prompt.admissible=true",
    "prompt.train_thoughts=false",
    "model.sft.lr=1e-3",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.finish(tmp_path_factory.mktemp("prompt"), *SETTINGS)


def test_demonstrations_think_and_have_a_prompt_a_turn(run: Path) -> None:
    for episode in read_episodes(run / "episodes" / "demonstrations.jsonl"):
        assert episode.won and episode.trains_thoughts
        assert all(turn.thought.startswith("My plan is to ") and turn.thought_tokens > 5 for turn in episode.turns)
        assert all(turn.prompt_ids and not turn.context_ids for turn in episode.turns[1:])


def test_all_stages_run_through(run: Path) -> None:
    result = RunResult.read(run)
    assert result is not None and [stage.name for stage in result.stages] == ["base", "sft", "rl"]
    metrics = small.lines(run / "rl" / "metrics.jsonl")
    assert [line["step"] for line in metrics] == [1, 2, 3]
    assert all(line["rollout/unparsed_actions"] <= line["rollout/invalid_actions"] <= 1 for line in metrics)


def test_what_was_learned_from_is_what_was_played_but_for_thoughts(run: Path) -> None:
    for step in range(1, 4):
        episodes = list(read_episodes(run / "rl" / "episodes" / f"{step:06d}.jsonl"))
        assert all(turn.admissible for episode in episodes for turn in episode.turns)
        assert all(turn.prompt_ids for episode in episodes for turn in episode.turns[1:])
        for episode, credit in zip(episodes, read_credit(run / "rl" / "credit" / f"{step:06d}.jsonl"), strict=True):
            assert not episode.trains_thoughts
            trained = sum(len(turn.action_ids) - episode.muted(turn) for turn in episode.turns)
            assert credit is not None and len(credit.advantages) == trained
