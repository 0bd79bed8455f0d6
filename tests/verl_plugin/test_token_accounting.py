"""What the loss of a step is divided by, where its rows are not one an episode played in it."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transfer_queue as tq
from step_probe import PROMPTS, composed, made, made_up

SAMPLES, ROWS = 2, 3
ONE_PASS = (
    "algo=grpo",
    f"actor_rollout_ref.rollout.n={SAMPLES}",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=64",
    # the ratio of new to old is 1, and the loss minus the mean advantage
    "algorithm.rollout_correction.bypass_mode=false",
)


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
    trainer.now.begin(trainer.global_steps, trainer.total_training_steps)
    return metrics, -total / sum(int(mask.sum()) for mask in masks)


def test_all_tokens_of_an_episodes_rows_are_divided_by(model: str, tmp_path: Path) -> None:
    """Episodes of one to three rows: the mean is not 0, as it is with equal ones."""
    trainer = made(composed(tmp_path, *ONE_PASS, "rollout_form=summary"), model, ROWS)
    assert trainer.windows
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


# of each sample: its tree, the tokens of the turn that its tree's two leaves share, those of its
# own turn, its score
LEAVES = ((0, 3, 2, 0.0), (0, 3, 4, 1.0), (2, 5, 2, 2.0), (2, 5, 1, 0.0))
# (score - 3/4) / 0.957427 of the four, and +-1/2 or +-1 over 0.707107 or 1.414214 of a tree's two
# are -1.490455, 0.968222, 2.012688 and -1.490455: on 5 or 3.5, 7 or 5.5, 7 or 4.5, 6 or 3.5 tokens


def leaf(prompt: str, sample: int, window: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    tree, shared, own, score = LEAVES[sample]
    key, fields, tag = made_up(prompt, sample, window, [1] * shared + [0, 0] + [1] * own)
    fields["rm_scores"] = torch.zeros(shared + 2 + own).index_fill_(0, torch.tensor(shared + 1 + own), score)
    return key, fields | {"turn_tree": torch.tensor([tree]), "turn_node": torch.tensor([tree, 10 + sample])}, tag


@pytest.mark.parametrize(("shared", "loss"), [("each", -4.471365 / 25), ("once", -3.949131 / 25)])
def test_a_shared_turns_tokens_count_in_each_leaf(model: str, tmp_path: Path, shared: str, loss: float) -> None:
    """5 + 7 + 7 + 6 tokens, in whichever way the advantage of a shared turn is divided."""
    words = ("algo=tree_grpo", "actor_rollout_ref.rollout.n=4", f"credit.tree.shared={shared}")
    trainer = made(composed(tmp_path, *ONE_PASS, *words), model, 1)
    trainer.replay_buffer.row = leaf
    metrics, wanted = stepped(trainer)
    assert metrics["actor/pg_loss"] == pytest.approx(loss, abs=1e-5) == wanted
