"""A teacher whose weights are a running average of the policy's, in real steps."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transfer_queue as tq
from step_probe import composed, made, made_up
from test_steps import SIZES
from torch import Tensor

from turngrid.verl_plugin.averaged import FILE, NAME, advanced, swap, trained

SCORED = "scored_contexts_terms_self_distill"
WORDS = ("algo=grpo", "terms=[self_distill]", "terms.self_distill.teacher=ema", "actor_rollout_ref.actor.optim.lr=0.01")


def same_rows(prompt: str, sample: int, window: int) -> Any:
    """Those of the first step again."""
    key, fields, tag = made_up(f"{int(prompt) % 8:04d}", sample, window)
    return f"{prompt}_{key.partition('_')[2]}", {**fields, "uid": prompt}, tag


def trainer(folder: Path, path: str, *words: str) -> Any:
    found = made(composed(folder, *SIZES, *WORDS, *(f"terms.self_distill.{word}" for word in words)), path, 1)
    found.replay_buffer.row = same_rows
    return found


def step(trainer: Any, number: int) -> tuple[Tensor, Tensor]:
    """The old log-probs and the teacher's of a step's action tokens."""
    trainer.global_steps = number
    trainer.now.begin(number, 2)
    batch = trainer.step({}, {})
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id)
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    mask = data["loss_mask"].values().bool()
    return data["old_log_probs"].values()[mask], data[SCORED].values()[mask]


def engine(trainer: Any) -> Any:
    return trainer.actor_rollout_wg.worker.actor.engine


def test_the_teacher_follows_the_policy(model: str, tmp_path: Path) -> None:
    """It begins as the policy. With decay 1 it stays what it was, with 0 it is the policy."""
    for words, wanted in ((("ema={steps:{1:0,2:1}}", "ema_every=1"), "first"), (("ema=0", "ema_every=1"), "own")):
        made = trainer(tmp_path, model, *words, "ema_copied=0")
        first, taught = step(made, 1)
        torch.testing.assert_close(taught, first, rtol=0, atol=1e-5)
        old, taught = step(made, 2)
        assert (old - first).abs().max() > 0.01, "nothing was learned"
        torch.testing.assert_close(taught, first if wanted == "first" else old, rtol=0, atol=1e-5)


def test_the_policy_is_as_it_was(model: str, tmp_path: Path) -> None:
    """To the bit: without weight, a run with a teacher learns what one without an average does."""
    weights = []
    for teacher in ("ema", "sync"):
        made = trainer(tmp_path, model, "weight=0", f"teacher={teacher}")
        for number in (1, 2):
            step(made, number)
        weights.append([weight.clone() for weight in trained(engine(made).module)])
    assert all(map(torch.equal, *weights))


def test_a_checkpoint_has_the_average(model: str, tmp_path: Path) -> None:
    """Also of a step in which no row has a hint."""
    made, other = (trainer(tmp_path, model) for _ in range(2))
    made.methods.contexts._sequences = lambda *_: []
    step(made, 1)
    engine(made).save_checkpoint(str(tmp_path / "actor"))
    assert (tmp_path / "actor" / FILE.format(0)).exists() and getattr(engine(other), NAME, None) is None
    engine(other).load_checkpoint(str(tmp_path / "actor"), del_local_after_load=False)
    kept, restored = (getattr(engine(one), NAME) for one in (made, other))
    assert len(kept) > 5 and all(map(torch.equal, kept, restored))


def test_the_average_of_worked_numbers() -> None:
    layer = torch.nn.Linear(1, 1, bias=False)
    engine = type("Engine", (), {"module": layer})()
    for step, value, wanted in ((1, 1.0, 1.0), (2, 3.0, 1.0), (4, 3.0, 1.2), (6, 5.0, 5.0)):  # copied at 6
        layer.weight.data.fill_(value)
        (average,) = advanced(engine, step, decay=0.9, every=4, copied=6)
        assert average.item() == pytest.approx(wanted)
    swap([layer.weight.data], [other := torch.tensor([[7.0]])])
    assert (layer.weight.item(), other.item()) == (7.0, 5.0)
