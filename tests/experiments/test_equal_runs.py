"""Runs that equal each other: on one trainer process and on two, rolled back and rolled back after
a kill."""

from pathlib import Path

import pytest
import small
import torch

from turngrid.records.resume import RlFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
# ---- on one trainer process and on two: credit, a term with a state and a buffer

METHODS = ("credit=[gigpo]", "terms=[epo]", "buffer=self_imitation", "buffer.self_imitation.capacity=1")
TWO = ("trainer.n_gpus_per_node=2", "ray_kwargs.ray_init.num_gpus=2", "cluster.trainer_threads=1")
RL = ("algo=grpo", "budget=rl_only", "budget.sft_share=0", "eval.games=2", *METHODS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    return small.finish(one, *RL, timeout_s=1000), small.finish(two, *RL, *TWO, timeout_s=1000)


def test_the_first_step_is_the_same_step(runs: tuple[Path, Path]) -> None:
    """Up to rounding; later steps begin with weights that differ by as much."""
    played = [small.lines(run / "rl/episodes/000001.jsonl") for run in runs]
    ours, theirs = ([turn["action_ids"] for episode in own for turn in episode["turns"]] for own in played)
    assert ours == theirs
    one, two = (small.comparable(small.lines(run / "rl/metrics.jsonl"))[0] for run in runs)
    families = ("credit/", "terms/", "buffer/", "reward/", "actor/pg_loss", "actor/grad")
    told = [key for key in one if key.startswith(families)]
    assert {"credit/repeated_states", "terms/epo/beta", "buffer/self_imitation/episodes", "actor/pg_loss"} <= set(told)
    assert {key: two[key] for key in told} == pytest.approx({key: one[key] for key in told}, rel=1e-3, abs=1e-5)


def test_state_is_kept_once(runs: tuple[Path, Path]) -> None:
    for run in runs:
        state = torch.load(run / "rl/checkpoints/global_step_3/methods.pt", weights_only=True)
        assert set(state) == {"terms/epo", "buffer/self_imitation"} and state["terms/epo"]["count"] == 3
    lines = small.lines(runs[1] / "rl/metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3]


# ---- health=rollback

RATE = 0.004  # ten times the usual: the KL of step 2 is 0.6 nats
ROLLED_BACK = ("budget=rl_only", "budget.sft_share=0", "budget.rl_steps=4", "eval.games=1", "env.task=w1-o2-q1")
ROLLED_BACK += ("health=rollback", "health.policy_kl=0.4", "health.entropy_up=null")
ROLLED_BACK += ("actor_rollout_ref.actor.ppo_mini_batch_size=2", f"actor_rollout_ref.actor.optim.lr={RATE}")


def to_the_end(output: Path) -> RlFolder:
    """After two rollbacks an alarm ends the run; the same command goes on."""
    for _ in range(3):
        if small.launch(output, *ROLLED_BACK).wait(timeout=900) == 0:
            break
    return RlFolder(small.run_folder(output))


@pytest.mark.timeout(3000)
def test_a_rollback_repeats_bit_for_bit(tmp_path: Path) -> None:
    process = small.launch(tmp_path / "killed", *ROLLED_BACK)
    small.wait_for(lambda: bool(list((tmp_path / "killed").glob("*/rl/rollbacks.jsonl"))), 600)
    small.kill(process)
    whole, killed = to_the_end(tmp_path / "whole"), to_the_end(tmp_path / "killed")
    rollbacks = small.lines(whole.rollbacks)
    assert rollbacks and rollbacks == small.lines(killed.rollbacks)
    metrics, again = (small.comparable(small.lines(rl.metrics)) for rl in (whole, killed))
    assert metrics == again and [line["step"] for line in metrics] == [1, 2, 3, 4]
    for step in (1, 2, 3, 4):
        assert small.without_clocks(whole.step_episodes(step)) == small.without_clocks(killed.step_episodes(step))
    for number, line in enumerate(rollbacks, 1):
        assert line["rate"] == RATE / 2**number and line["to"] == 1 < line["step"]
    rates = {line["step"]: line["actor/lr"] for line in metrics}
    assert rates == {1: RATE} | dict.fromkeys((2, 3, 4), RATE / 2 ** len(rollbacks))
    dropped = small.lines(whole.discarded / "000" / "metrics.jsonl")
    assert [(line["step"], line["actor/lr"]) for line in dropped] == [(2, RATE)]
