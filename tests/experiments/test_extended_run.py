"""A run of 2 steps, extended to 4 and killed on the way, equals an unbroken run of 4 bit for
bit."""

from pathlib import Path

import pytest
import small
import torch

from turngrid.experiments.evaluation.result import RunResult
from turngrid.records.process.exit_codes import INTERRUPTED

# PPO has a critic, EPO a history of its own; 8 games, so that both lengths visit the same ones
WORDS = (
    "budget=rl_only",
    "budget.units=8",
    "budget.sft_share=0",
    "algo=ppo",
    "reward=dense",
    "terms=[epo]",
    "terms.epo.steps=4",
    "model.path=asset://tiny",
)


@pytest.mark.slow
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
