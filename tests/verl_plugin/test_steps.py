"""Whole steps of the trainers of every mode, on made-up rows: how often the optimizers step, and
which rows a model is given."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transfer_queue as tq
from step_probe import PROMPTS, SMALL, adam_steps, composed, made, made_up
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp import transformer_impl

from turngrid.algorithms.registry import ALGORITHMS, SLOTS, VERLS_LOSSES
from turngrid.config.checks.methods import bad_methods
from turngrid.config.compose import composer
from turngrid.tasks.run import Run
from turngrid.verl_plugin.training import probe, task

Row = tuple[str, dict[str, Any], dict[str, Any]]

UPDATES = 4  # of the policy in a step
WINDOWS = 3  # rows of an episode, at most
SIZES = (
    "actor_rollout_ref.rollout.n=2",
    f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS // UPDATES}",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
)
KL = ("actor_rollout_ref.actor.use_kl_loss=true",)
# Each mode, with and without a critic, with windows and without
CASES = [("sync", "turn_ppo algo.value_at=first", WINDOWS), ("separate_async", "hiper", WINDOWS)]
CASES += [("separate_async", "grpo", 1), ("sync", "grpo precision=bf16", 1)]
SLOW = [("colocate_async", "ppo", WINDOWS), ("sync", "bi_level_gae", WINDOWS), ("sync", "hiper", 1)]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[TensorDict]:
    """Every pass that a model was given."""
    passes: list[TensorDict] = []
    forward = transformer_impl.FSDPEngineWithLMHead.forward_step

    def noting(engine: Any, micro_batch: TensorDict, **settings: Any) -> Any:
        passes.append(micro_batch)
        return forward(engine, micro_batch, **settings)

    monkeypatch.setattr(transformer_impl.FSDPEngineWithLMHead, "forward_step", noting)
    return passes


def stepped(folder: Path, model: str, mode: str, windows: int, *overrides: str) -> tuple[Any, dict[str, Any], int]:
    """A trainer after one step of episodes of so many rows at most, its metrics, and how many rows
    were padding."""
    more = (f"env.window_turns={WINDOWS}",) if windows > 1 else ()
    config = composed(folder, f"trainer.v1.trainer_mode={mode}", *SIZES, *more, *overrides)
    trainer, metrics = made(config, model, windows), {}
    batch = trainer.step(metrics, {})
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    return trainer, metrics, sum(tag.get("is_padding", False) for tag in batch.tags)


@pytest.mark.parametrize(
    ("mode", "algo", "windows"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]
)
def test_a_step_updates_as_often_as_it_has_mini_batches_and_on_no_padding(
    mode: str, algo: str, windows: int, given: list[TensorDict], model: str, tmp_path: Path
) -> None:
    trainer, metrics, padding = stepped(tmp_path, model, mode, windows, *f"algo={algo}".split(), *KL)
    assert adam_steps(trainer.actor_rollout_wg.worker.actor) == {UPDATES}
    assert trainer.use_critic == (algo.split()[0] in ("ppo", "bi_level_gae", "turn_ppo", "hiper"))
    if trainer.use_critic:
        assert adam_steps(trainer.critic_wg.worker) == {UPDATES}
    sizes = {int(row.sum()) for one in given for row in one["loss_mask"].unbind()}
    assert sizes == ({5, 2} if "first" in algo else {5}), "a critic of first tokens has two targets a row"
    assert bool(padding) == (windows > 1), "the case has nothing to show"
    divisors = {tu.get_non_tensor_data(one, "global_batch_size", default=None) for one in given} - {None}
    assert divisors == {2 * PROMPTS // UPDATES}, "episodes, a constant, and not rows"
    assert all(row.any() for one in given for row in one["response_mask"].unbind())
    assert {"actor/pg_loss", "actor/grad_norm"} <= set(metrics)
    measured = {"mismatch/nats", "training/rollout_probs_diff_mean"} & set(metrics)
    assert len(measured) == (0 if mode == "sync" and "bf16" not in algo else 2)
    assert not [name for name, value in metrics.items() if not math.isfinite(value)]


def drawn(seed: int) -> str:
    """A combination of methods that runs, drawn at random: an algorithm, credit, filters, a loss, a
    term."""
    draw = random.Random(seed)
    with composer() as compose:
        while True:
            algo, loss = draw.choice([*ALGORITHMS]), draw.choice(["", *SLOTS["loss"], *VERLS_LOSSES])
            chosen = {slot: draw.sample(list(SLOTS[slot]), draw.randint(0, 2)) for slot in ("credit", "filter")}
            chosen["terms"] = draw.sample(list(SLOTS["terms"]), draw.randint(0, 1))
            words = [f"algo={algo}", *(f"{slot}=[{','.join(names)}]" for slot, names in chosen.items())]
            words += [f"loss={loss}"] if loss else []
            if not list(bad_methods(Run(compose([*SMALL, *words])))):
                return " ".join(words)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_methods_drawn_at_random_make_a_step(seed: int, model: str, tmp_path: Path) -> None:
    words = drawn(seed)
    print(words)  # what failed
    windows = 1 if "gspo" in words else WINDOWS
    trainer, metrics, _ = stepped(tmp_path, model, "sync", windows, *words.split())
    assert adam_steps(trainer.actor_rollout_wg.worker.actor) == {0 if trainer.now.nothing_left else UPDATES}
    assert not [name for name, value in metrics.items() if not math.isfinite(value)]


def test_entropies_of_rows_do_what_those_of_a_pass_do(given: list[TensorDict], model: str, tmp_path: Path) -> None:
    methods = "credit=[aem,empg]"

    def learned(row: Callable[..., Row], *more: str) -> tuple[dict[str, Any], dict[str, list[Tensor]], int]:
        """Metrics, entropies and advantages by row, and how many passes there were."""
        given.clear()
        trainer, metrics = made(composed(tmp_path, "algo=grpo", *methods.split(), *SIZES, *more), model, 1), {}
        trainer.replay_buffer.row = row
        batch = trainer.step(metrics, {})
        fields = ["entropy", "advantages"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
        rows = zip(batch.keys, *(data[name].unbind() for name in fields), strict=True)
        return metrics, {key: numbers for key, *numbers in rows}, len(given)

    def bringing(prompt: str, sample: int, window: int) -> Row:
        key, fields, tag = made_up(prompt, sample, window)
        return key, {**fields, "entropy": found[key][0]}, tag

    by_pass, found, passes = learned(made_up, "algorithm.rollout_correction.bypass_mode=false")
    told, same, fewer = learned(bringing)
    assert fewer < passes and "actor/entropy" in by_pass.keys() - told.keys()
    assert all(torch.equal(same[key][1], advantages) and advantages.any() for key, (_, advantages) in found.items())


def test_a_teacher_judges_each_token(model: str, tmp_path: Path) -> None:
    """One that is the policy itself has nothing to teach."""
    again = "algorithm.rollout_correction.bypass_mode=false"
    kl, norm = {}, {}
    for teacher in (model, "asset://tiny"):
        _, metrics, _ = stepped(tmp_path, model, "sync", 1, "algo=distill", f"algo.teacher={teacher}", again)
        kl[teacher], norm[teacher] = abs(metrics["actor/reward_kl_penalty"]), metrics["actor/grad_norm"]
    assert kl[model] < 1e-5 and kl["asset://tiny"] > 0.01
    assert norm["asset://tiny"] > 100 * norm[model]


NOTHING = ("filter=[difficulty]", "filter.difficulty.low=5", "filter.difficulty.high=6")
REJECTS = "algorithm.rollout_correction.rollout_rs=seq_mean_k1", "algorithm.rollout_correction.rollout_rs_threshold="


@pytest.mark.parametrize(
    ("mode", "words"), [("colocate_async", (REJECTS[0], f"{REJECTS[1]}900.0_901.0")), ("separate_async", NOTHING)]
)
def test_a_step_of_which_nothing_is_left(
    mode: str, words: tuple[str, ...], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer, metrics, _ = stepped(tmp_path, model, mode, 1, "algo=ppo", *words)
    assert adam_steps(trainer.actor_rollout_wg.worker.actor) == adam_steps(trainer.critic_wg.worker) == {0}
    assert "no update" in capsys.readouterr().out
    assert metrics["filter/updates_left_out/total"] == (UPDATES if mode == "separate_async" else 1)
    assert not [name for name, value in metrics.items() if not math.isfinite(value)]


def test_the_probe_writes_what_each_token_had(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server, and by the trainer before and after its update, which raises every token's
    probability; without LoRA's adapter as before, since that begins with none."""
    monkeypatch.setitem(task.TRAINERS, "sync", probe.ProbedTrainer)
    words = ("algo=grpo", "model.lora_rank=8", "algorithm.rollout_correction.bypass_mode=false", *SIZES)
    trainer = made(composed(tmp_path, *words), model, 1)
    trainer.ref_in_actor = True
    folder = Path(trainer.config.run.folder) / "rl"
    folder.mkdir(parents=True, exist_ok=True)
    batch = trainer.step({}, {})
    tq.kv_clear(keys=batch.keys, partition_id=batch.partition_id)
    with np.load(folder / "probe" / "000001.npz") as columns:
        found = dict(columns)
    rows = [made_up(f"{prompt:04d}", sample, 0)[1] for prompt in range(PROMPTS) for sample in range(2)]
    server = torch.cat([row["rollout_log_probs"][row["response_mask"] == 1] for row in rows])
    assert sorted(found["server"].tolist()) == pytest.approx(sorted(server.tolist()))
    assert found["turn"].tolist() == [0, 0, 0, 1, 1] * len(rows)
    assert found["base"] == pytest.approx(found["before"], abs=1e-5)
    assert (found["after"] - found["before"]).mean() > 1e-3


def test_the_credit_log_has_what_the_losses_were_given(given: list[TensorDict], model: str, tmp_path: Path) -> None:
    """Token by token, in windows: advantages of the policy's loss, values and returns of the
    critic's."""
    trainer, *_ = stepped(tmp_path, model, "sync", WINDOWS, "algo=ppo", "credit=[group_scale]")
    learned: dict[str, dict[tuple[int, ...], list[float]]] = {"advantages": {}, "values": {}, "returns": {}}
    for one in given:
        for name in {*learned} & {*one.keys()}:
            for row in zip(*(one[field].unbind() for field in ("prompts", "responses", name)), strict=True):
                prompt, response, numbers = (column.tolist() for column in row)
                learned[name][(*prompt, *response)] = numbers
    kept = trainer.credit._credits
    assert len(kept) > 2 * PROMPTS and len({round(x, 5) for one in kept.values() for x in one.advantages}) > len(kept)
    for key, credit in kept.items():
        prompt, sample, window = key.split("_")
        fields = made_up(prompt, int(sample), int(window))[1]
        for name, rows in learned.items():
            numbers = rows[tuple(fields["input_ids"].tolist())]
            sampled = [x for x, mask in zip(numbers, fields["response_mask"].tolist(), strict=True) if mask]
            assert getattr(credit, name) == pytest.approx(sampled, rel=1e-6), (key, name)
