"""The same run on one trainer process and on two: credit, a term with a state and a buffer give the
same numbers."""

from pathlib import Path

import pytest
import small
import torch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
METHODS = ("credit=[gigpo]", "terms=[epo]", "buffer=self_imitation", "buffer.self_imitation.capacity=1")
TWO = ("trainer.n_gpus_per_node=2", "ray_kwargs.ray_init.num_gpus=2", "cluster.trainer_threads=1")
RL = ("algo=grpo", "budget=rl_only", "budget.sft_share=0", "eval.games=2", *METHODS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    return small.finish(one, *RL, timeout_s=1000), small.finish(two, *RL, *TWO, timeout_s=1000)


def test_the_first_step_is_the_same_step(runs: tuple[Path, Path]) -> None:
    """Up to how floating point numbers add up; later ones begin with weights that differ by as
    much."""
    ours, theirs = (small.without_clocks(run / "rl/episodes/000001.jsonl") for run in runs)
    assert [turn["action_ids"] for episode in ours for turn in episode["turns"]] == [
        turn["action_ids"] for episode in theirs for turn in episode["turns"]
    ]
    one, two = (small.comparable(small.lines(run / "rl/metrics.jsonl"))[0] for run in runs)
    told = [
        key for key in one if key.startswith(("credit/", "terms/", "buffer/", "reward/", "actor/pg_loss", "actor/grad"))
    ]
    assert {"credit/repeated_states", "terms/epo/beta", "buffer/self_imitation/episodes", "actor/pg_loss"} <= set(told)
    assert {key: two[key] for key in told} == pytest.approx({key: one[key] for key in told}, rel=1e-3, abs=1e-5)


def test_state_is_kept_once(runs: tuple[Path, Path]) -> None:
    for run in runs:
        state = torch.load(run / "rl/checkpoints/global_step_3/methods.pt", weights_only=True)
        assert set(state) == {"terms/epo", "buffer/self_imitation"} and state["terms/epo"]["count"] == 3
    lines = small.lines(runs[1] / "rl/metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3]
