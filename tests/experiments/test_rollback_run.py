"""health=rollback: a run goes back with half the rate, and repeats bit for bit, also if killed."""

from pathlib import Path

import pytest
import small

from turngrid.records.resume import RlFolder

WORDS = (
    *("budget=rl_only", "budget.sft_share=0", "budget.rl_steps=4", "eval.games=1", "env.task=w1-o2-q1"),
    *("health=rollback", "health.policy_kl=0.4", "health.entropy_up=null"),
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "actor_rollout_ref.actor.optim.lr=0.004",  # ten times the usual: the KL of step 2 is 0.6 nats
)
RATE = 0.004


def to_the_end(output: Path) -> RlFolder:
    """After two rollbacks an alarm ends the run; the same command goes on."""
    for _ in range(3):
        if small.launch(output, *WORDS).wait(timeout=900) == 0:
            break
    return RlFolder(small.run_folder(output))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_it_repeats_bit_for_bit(tmp_path: Path) -> None:
    process = small.launch(tmp_path / "killed", *WORDS)
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
