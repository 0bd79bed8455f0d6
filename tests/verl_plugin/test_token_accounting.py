"""What the loss of a step is divided by, where its rows are not one an episode played in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transfer_queue as tq
from engine_probe import one_layer
from step_probe import PROMPTS, composed, made

from verl_plugin.training.window_rows import WindowRows

SAMPLES, ROWS = 2, 3
ONE_PASS = (
    "algo=grpo",
    f"actor_rollout_ref.rollout.n={SAMPLES}",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=64",
    "algorithm.rollout_correction.bypass_mode=false",  # the ratio of new to old is 1, and the loss minus the mean advantage
)


@pytest.fixture(scope="module")
def model(queue: None, one_process: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    return one_layer(tmp_path_factory.mktemp("model"))


def stepped(trainer: Any) -> tuple[dict[str, Any], float]:
    """Metrics of a step, and minus the mean advantage of the tokens that it learned from."""
    metrics: dict[str, Any] = {}
    batch = trainer.step(metrics, {})
    keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
    assert not any(key.startswith("replay") for key in batch.keys)
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["advantages", "loss_mask"])
    masks, advantages = (list(data[name].unbind()) for name in ("loss_mask", "advantages"))
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    total = sum((one * mask).sum().item() for one, mask in zip(advantages, masks, strict=True))
    trainer.global_steps += 1
    return metrics, -total / sum(int(mask.sum()) for mask in masks)


def test_all_tokens_of_an_episodes_rows_are_divided_by(model: str, tmp_path: Path) -> None:
    """Episodes of one to three rows: the mean is not 0, as it is with equal ones."""
    trainer = made(composed(tmp_path, *ONE_PASS, "rollout_form=summary"), model, ROWS)
    assert isinstance(trainer, WindowRows)
    metrics, wanted = stepped(trainer)
    assert abs(wanted) > 0.01 and metrics["actor/pg_loss"] == pytest.approx(wanted, abs=1e-5)


def test_replayed_rows_are_no_part_of_the_steps_own_mean(model: str, tmp_path: Path) -> None:
    """Each step's own loss is as it would be without them, and that of its own advantages."""
    plain = made(composed(tmp_path, *ONE_PASS, "rollout_form=summary"), model, ROWS)
    words = ("rollout_form=summary", "buffer=self_imitation", "buffer.self_imitation.capacity=1")
    replays = made(composed(tmp_path, *ONE_PASS, *words), model, ROWS)
    for step in (1, 2):
        (metrics, wanted), (without, _) = stepped(replays), stepped(plain)
        assert metrics["actor/pg_loss"] == pytest.approx(wanted, abs=1e-5)
        assert metrics["actor/pg_loss"] == pytest.approx(without["actor/pg_loss"], abs=1e-6)
        assert ("replay/pg_loss" in metrics) == (step == 2)
