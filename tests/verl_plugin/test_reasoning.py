"""Answers of a step, scored after each other's prompts: against a plain forward pass, in every
trainer mode; what is trained stays the same to the bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transfer_queue as tq
from plain_model import Plain
from step_probe import composed, made, made_up
from test_steps import SIZES

from turngrid.algorithms.mutual_information import mutual_information
from turngrid.verl_plugin.rollout.contexts import SPANS

WHERE = [("sync", "false"), ("colocate_async", "true")]


def with_spans(prompt: str, sample: int, window: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Episodes of the first prompt have no answer to score, and others one in their second turn."""
    key, fields, tag = made_up(prompt, sample, window)
    last = len(fields["input_ids"])
    second = [last, last] if int(prompt) == 0 else [last - 2, last]
    return key, fields | {SPANS: torch.tensor([0, 0, *second])}, tag


def stepped(
    folder: Path, path: str, *words: str, replaced: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    trainer, metrics = made(composed(folder, *SIZES, *words), path, 1), {}
    trainer.replay_buffer.row, trainer.now.replaced = with_spans, replaced
    batch = trainer.step(metrics, {})
    assert not [key for key in tq.kv_list(partition_id=batch.partition_id)[batch.partition_id] if "context" in key]
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    weights = trainer.actor_rollout_wg.worker.actor.engine.module.state_dict()
    return metrics, {name: weight.clone() for name, weight in weights.items()}


@pytest.mark.parametrize(("mode", "bypass"), WHERE)
def test_numbers_are_those_of_a_plain_forward_pass(mode: str, bypass: str, model: str, tmp_path: Path) -> None:
    words = (f"trainer.v1.trainer_mode={mode}", f"algorithm.rollout_correction.bypass_mode={bypass}")
    plain, pairs = Plain(model), []
    found, weights = stepped(tmp_path, model, *words, "tracking.reasoning=100")
    for prompt in range(1, 8):
        for sample in range(2):
            ids = with_spans(f"{prompt:04d}", sample, 0)[1]["input_ids"].tolist()
            pairs.append((ids[:-2], ids[-2:]))
    scored = [[plain.log_probs(before, answer, 0.7).sum().item() for before, _ in pairs] for _, answer in pairs]
    wanted = mutual_information(torch.tensor(scored), torch.full((14,), 2), torch.arange(14))
    own = {name.removeprefix("reasoning/"): value for name, value in found.items() if name.startswith("reasoning/")}
    assert own.pop("answers") == 14 and own.pop("tokens") == 14 * sum(len(before) + 2 for before, _ in pairs)
    assert own == pytest.approx(wanted, abs=1e-4)
    metrics, others = stepped(tmp_path, model, *words)
    assert not [name for name in metrics if name.startswith("reasoning/")]
    assert all(torch.equal(weight, others[name]) for name, weight in weights.items())


def test_answers_are_drawn_from_different_prompts_and_not_from_a_buffer(model: str, tmp_path: Path) -> None:
    found, _ = stepped(tmp_path, model, "tracking.reasoning=7")
    assert found["reasoning/answers"] == 7 and found["reasoning/retrieval_chance"] == pytest.approx(1 / 7)
    left, _ = stepped(tmp_path, model, "tracking.reasoning=100", replaced=frozenset({"0001_0", "0001_1"}))
    assert left["reasoning/answers"] == 12
    assert "reasoning/answers" not in stepped(tmp_path, model, "tracking.reasoning=7", "tracking.reasoning_every=2")[0]
