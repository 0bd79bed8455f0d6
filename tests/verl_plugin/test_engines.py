"""verl's FSDP2 engines on a CPU, built as its workers build them, beside the rollout server's
generator."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from engine_probe import TINY, batch_of, jagged, make_engine
from tensordict import TensorDict
from torch.distributed.tensor import DTensor
from transformers import AutoConfig
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

from turngrid.rollouts.sampling import Sample
from turngrid.verl_plugin import threads
from turngrid.verl_plugin.cpu import engines
from turngrid.verl_plugin.servers.transformers_server.generator import Generator, SampleRequest
from turngrid.verl_plugin.training import zero_advantages

pytestmark = pytest.mark.usefixtures("one_process")
TEMPERATURE = 0.7


def test_a_narrow_model_has_one_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TURNGRID_TRAINER_THREADS", "2")
    monkeypatch.setenv("TURNGRID_ROLLOUT_THREADS", "3")
    narrow, wide = (AutoConfig.for_model("qwen3", hidden_size=size) for size in (threads.WIDE - 1, threads.WIDE))
    found = [(threads.threads(model, "TRAINER"), threads.threads(model, "ROLLOUT")) for model in (narrow, wide)]
    assert found == [(1, 1), (2, 3)]


def played(engine: Any) -> tuple[TensorDict, list[Sample]]:
    """Rows that the generator sampled with the engine's weights, as the trainer gets them, and what
    the generator told of them."""
    generator = Generator.from_pretrained(TINY)
    weights, _ = engine.get_per_tensor_param()
    generator.load_weights(weights)
    prompts = [[4, 5, 6, 7], [8, 9], [10, 11, 12, 13, 14, 15]]
    requests = [SampleRequest(f"r{i}", ids, 4 + i, TEMPERATURE, seed=i) for i, ids in enumerate(prompts)]
    results = generator.generate([replace(request, full_entropies=True) for request in requests])
    rows = [[*ids, *result.token_ids] for ids, result in zip(prompts, results, strict=True)]
    masks = [[1] * len(result.token_ids) for result in results]
    batch = batch_of(rows, response_mask=masks, loss_mask=masks)
    passes = {"use_remove_padding": False, "use_dynamic_bsz": False, "micro_batch_size_per_gpu": 3}
    tu.assign_non_tensor(batch, temperature=TEMPERATURE, calculate_entropy=True, **passes)
    return batch, results


@pytest.mark.parametrize("forward_only", [False, True], ids=["actor", "reference"])
def test_the_trainers_log_probs_and_entropies_are_the_servers(forward_only: bool) -> None:
    """verl's sum of an entropy in float32 is itself up to 4e-5 off. The reference policy's offload
    to pinned memory, for one, cannot be had on a CPU."""
    engine = make_engine(forward_only=forward_only)
    assert all(
        isinstance(parameter, DTensor) and parameter.device.type == "cpu" for parameter in engine.module.parameters()
    )
    batch, behaviour = played(engine)
    with engine.eval_mode():
        output = engine.infer_batch(batch)["model_output"]
    for name, told, bound in (("log_probs", "logprobs", 1e-5), ("entropy", "full_entropies", 5e-5)):
        for row, result in zip(output[name].unbind(), behaviour, strict=True):
            sampled = getattr(result, told)
            found = row[-len(sampled) - 1 : -1]  # the token at place t is judged at place t - 1
            torch.testing.assert_close(found, torch.tensor(sampled), atol=bound, rtol=0)


def with_advantages(batch: TensorDict, advantages: list[float], left_out: str = zero_advantages.ROWS) -> TensorDict:
    """The rows with one advantage each, in passes of one row, of an update that needs no others."""
    masks = [row.tolist() for row in batch["response_mask"].unbind()]
    batch["advantages"] = jagged([[value] * len(mask) for mask, value in zip(masks, advantages, strict=True)])
    tu.assign_non_tensor(batch, micro_batch_size_per_gpu=1, calculate_entropy=False, **{zero_advantages.KEY: left_out})
    return batch


def policy_gradient(model_output: dict[str, Any], data: TensorDict, dp_group: Any = None) -> tuple[torch.Tensor, dict]:
    """Minus the advantage-weighted log-probs of action tokens, over all of the mini-batch."""
    rows = zip(model_output["log_probs"].unbind(), data["advantages"].unbind(), strict=True)
    total = sum((logprobs[-len(weights) - 1 : -1] * weights).sum() for logprobs, weights in rows)
    return -total / data["batch_num_tokens"], {"rows": len(data)}


def value_error(model_output: dict[str, Any], data: TensorDict, dp_group: Any = None) -> tuple[torch.Tensor, dict]:
    """The squared values of all tokens."""
    return model_output["values"].values().square().sum() / data["batch_num_tokens"], {"rows": len(data)}


def gradient(
    engine: Any, batch: TensorDict, loss: Any = policy_gradient, verls: bool = False
) -> tuple[torch.Tensor, list[int]]:
    """The gradient of all weights, and each pass's number of rows; ``verls``: in verl's passes."""
    kind = FSDPEngine if verls else type(engine)
    engine.optimizer_zero_grad()
    with engine.train_mode():
        output = kind.forward_backward_batch(engine, batch, loss)
        flat = torch.cat([p.grad.full_tensor().flatten().clone() for p in engine.module.parameters()])
    return flat, output["metrics"]["rows"]


@pytest.mark.parametrize("advantages", [[1.0, 0.0, -0.5], [0.0, 0.0, 0.0]])
def test_rows_without_an_advantage_are_left_out_of_the_passes(advantages: list[float]) -> None:
    engine = make_engine()
    batch = with_advantages(played(engine)[0], advantages)
    ours, rows = gradient(engine, batch)
    verls, all_rows = gradient(engine, batch, verls=True)
    assert (len(rows), len(all_rows)) == (max(1, sum(map(bool, advantages))), 3)
    assert verls.abs().sum() > 0 or not any(advantages)
    torch.testing.assert_close(ours, verls, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("size", "advantages", "rows"),
    [(1, [0.0, 0.0, 1.0], [1]), (2, [0.0, 1.0, 0.0], [2]), (2, [0.0, 0.0, 1.0], [1]), (2, [1.0, 0.0, 1.0], [2, 1])],
)
def test_where_a_loss_compares_the_tokens_of_a_pass_only_whole_passes_are_left_out(
    size: int, advantages: list[float], rows: list[int]
) -> None:
    engine = make_engine()
    batch = with_advantages(played(engine)[0], advantages, zero_advantages.PASSES)
    tu.assign_non_tensor(batch, micro_batch_size_per_gpu=size)
    ours, found = gradient(engine, batch)
    tu.assign_non_tensor(batch, **{zero_advantages.KEY: ""})
    whole, all_rows = gradient(engine, batch)
    assert found == rows and sum(all_rows) == 3
    assert torch.equal(ours, whole) and ours.any()


def test_every_row_has_a_pass_where_nobody_said_that_the_loss_is_of_advantages_alone() -> None:
    """As in a critic's update, whose rows have advantages too."""
    engine, critic = make_engine(), make_engine("value_model")
    batch = with_advantages(played(engine)[0], [1.0, 0.0, 0.0])
    assert engines.rows_of_passes(batch) == [0]
    tu.assign_non_tensor(batch, **{zero_advantages.KEY: ""})
    assert engines.rows_of_passes(batch) == [0, 1, 2]
    tu.pop(batch, zero_advantages.KEY)
    assert gradient(engine, batch)[1] == [1, 1, 1]
    ours, rows = gradient(critic, batch, value_error)
    assert rows == [1, 1, 1]
    torch.testing.assert_close(ours, gradient(critic, batch, value_error, verls=True)[0], atol=1e-6, rtol=1e-5)


def head_of_a_new_critic(seed: str, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    monkeypatch.setenv("TURNGRID_SEED", seed)
    engine = make_engine("value_model")
    return torch.cat([p.full_tensor().flatten() for name, p in engine.module.named_parameters() if "score" in name])


def test_a_critics_head_comes_from_the_runs_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without flash attention, which verl's own loader asks for."""
    first, again, other = (head_of_a_new_critic(seed, monkeypatch) for seed in ("1", "1", "2"))
    assert first.numel() >= 64
    assert torch.equal(first, again) and not torch.equal(first, other)


@pytest.mark.parametrize("heads", [1, 3])
def test_a_critic_values_every_token(heads: int) -> None:
    batch, _ = played(make_engine())
    critic = make_engine("value_model", heads=heads)
    with critic.eval_mode():
        found = critic.infer_batch(batch)["model_output"]
    assert list(found) == ["values", "values_1", "values_2"][:heads]
    for values in found.values():
        assert [len(row) for row in values.unbind()] == [len(row) for row in batch["input_ids"].unbind()]
        assert values.values().isfinite().all() and values.values().std() > 0
    assert len({round(values.values().sum().item(), 4) for values in found.values()}) == heads
