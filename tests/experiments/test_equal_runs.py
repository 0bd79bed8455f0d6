"""Runs that equal each other: extended and unbroken, on one trainer process and on two, rolled back
and rolled back after a kill."""

from pathlib import Path

import pytest
import small
import torch

from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.process.exit_codes import INTERRUPTED
from turngrid.records.resume import RlFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
# PPO has a critic, EPO a history of its own; 8 games, so that both lengths visit the same ones
WORDS = ("budget=rl_only", "budget.units=8", "budget.sft_share=0", "model.path=asset://tiny")
WORDS += ("algo=ppo", "reward=dense", "terms=[epo]", "terms.epo.steps=4")


def test_an_extended_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    unbroken = small.finish(tmp_path / "unbroken", *WORDS, "budget.rl_steps=4")
    short = small.finish(tmp_path / "short", *WORDS, "budget.rl_steps=2")
    result = (short / "result.json").read_bytes()
    words, longer = (f"extend={short}", "budget.rl_steps=4"), tmp_path / "longer"
    process = small.launch(longer, *words, usual=())
    small.wait_for(lambda: bool(list(longer.glob("*/rl/checkpoints/global_step_3/manifest.json"))), 300)
    small.kill(process)
    assert process.returncode not in (0, INTERRUPTED)
    extended = small.finish(longer, *words, usual=())
    assert (short / "result.json").read_bytes() == result
    for step in range(1, 5):
        for name in (f"rl/episodes/{step:06d}.jsonl", f"rl/credit/{step:06d}.jsonl"):
            read = small.without_clocks if "episodes" in name else Path.read_text
            assert read(extended / name) == read(unbroken / name)
    ours, theirs = (small.comparable(small.lines(run / "rl" / "metrics.jsonl")) for run in (extended, unbroken))
    assert ours == theirs and all(line["actor/grad_norm"] > 0 for line in ours)
    last = "rl/checkpoints/global_step_4"
    files = [path.relative_to(unbroken) for path in (unbroken / last).rglob("*_rank_0.pt") if "extra" not in path.name]
    assert len(files) == 4  # weights and optimizer of actor and critic
    for file in files:
        saved = [torch.load(run / file, weights_only=False) for run in (extended, unbroken)]
        torch.testing.assert_close(*map(flat, saved), rtol=0, atol=0)
    assert RunResult.read(extended).units == RunResult.read(unbroken).units == 8
    assert RunResult.read(extended).stages[-1].successes == RunResult.read(unbroken).stages[-1].successes


def flat(node: object, name: str = "") -> dict[str, object]:
    """Tensors and numbers by their place; texts are compared by their place alone."""
    if isinstance(node, dict | list | tuple):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        return {place: value for key, inner in items for place, value in flat(inner, f"{name}/{key}").items()}
    return {name: node} if isinstance(node, torch.Tensor | int | float) else {name: 0}


# ---- on one trainer process and on two: credit, a term with a state and a buffer

METHODS = ("credit=[gigpo]", "terms=[epo]", "buffer=self_imitation", "buffer.self_imitation.capacity=1")
TWO = ("trainer.n_gpus_per_node=2", "cluster.trainer_threads=1")
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
ROLLED_BACK += ("health=rollback", "trainer.max_actor_ckpt_to_keep=3", "health.policy_kl=0.4", "health.entropy_up=null")
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
