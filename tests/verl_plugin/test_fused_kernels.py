"""verl's fused kernels, which ``gpu1`` uses on small cards: log-probs, entropies and gradients are
those of the model's own logits, also under LoRA. Here on a CPU, by the functions that verl's engine
calls."""

from typing import Any

import pytest
import torch
from engine_probe import TINY, make_engine
from peft import LoraConfig, get_peft_model
from test_bf16 import rows_of_random_ids
from test_engines import policy_gradient
from transformers import AutoModelForCausalLM, Qwen3ForCausalLM
from verl.models.transformers.monkey_patch import patch_forward_with_backends
from verl.utils import tensordict_utils as tu
from verl.utils.experimental.torch_functional import FusedLinearForPPO
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from turngrid.experiments.cost_estimate import memory
from turngrid.verl_plugin.cpu import engines

TEMPERATURE = 0.7


def loaded(rank: int) -> Any:
    model = AutoModelForCausalLM.from_pretrained(TINY)
    if rank:
        torch.manual_seed(0)
        model = get_peft_model(model, LoraConfig(r=rank, target_modules="all-linear", init_lora_weights=False))
    return model


@pytest.mark.parametrize("rank", [0, 8])
def test_log_probs_entropies_and_gradients(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.randint(10, 1000, (1, 700), generator=torch.Generator().manual_seed(0))  # more than a chunk
    labels = ids.roll(-1, 1)
    plain = loaded(rank)
    logits = (plain(input_ids=ids).logits / TEMPERATURE).log_softmax(-1)
    expected = logits.gather(-1, labels[..., None]).squeeze(-1)
    expected.sum().backward()

    fused = loaded(rank)
    own = fused.get_base_model() if rank else fused
    monkeypatch.setattr(type(own), "forward", type(own).forward)  # verl replaces it in the class
    patch_forward_with_backends(own, use_fused_kernels=True, fused_kernels_backend="torch")
    output = fused(input_ids=ids, temperature=TEMPERATURE, return_dict=True, shift_labels=labels)
    output.log_probs.sum().backward()
    torch.testing.assert_close(output.log_probs, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(output.entropy, -(logits.exp() * logits).sum(-1), atol=1e-4, rtol=1e-4)
    assert output.logits is None
    for (name, one), (_, other) in zip(plain.named_parameters(), fused.named_parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None), name
        if one.grad is not None:
            torch.testing.assert_close(other.grad, one.grad, atol=1e-3, rtol=1e-3)


def test_the_estimate_knows_how_many_tokens_it_takes_at_a_time() -> None:
    assert FusedLinearForPPO().chunk_size == memory.CHUNK


class Verls(engines._OnCpu, FSDPEngineWithLMHead):
    """verl's FSDP2 engine with its own outputs; ours for CPUs reads logits."""

    by_rows = False
    prepare_model_outputs = FSDPEngineWithLMHead.prepare_model_outputs


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("adapter", [{}, {"lora_rank": 8, "lora_alpha": 16, "target_modules": "all-linear"}])
def test_sharded_by_verls_engine(adapter: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probs, entropies and the gradients of an update, with the head's weights in FSDP2."""
    monkeypatch.setattr(EngineRegistry, "new", lambda model_type, backend, **rest: Verls(**rest))
    monkeypatch.setattr(Qwen3ForCausalLM, "forward", Qwen3ForCausalLM.forward)
    found = {}
    for fused in (False, True):
        engine = make_engine(use_fused_kernels=fused, fused_kernel_options={"impl_backend": "torch"}, **adapter)
        batch = rows_of_random_ids()
        tu.assign_non_tensor(batch, temperature=TEMPERATURE, use_fused_kernels=fused, calculate_entropy=True)
        with engine.eval_mode():
            output = engine.infer_batch(batch)["model_output"]
        engine.optimizer_zero_grad()
        with engine.train_mode():
            engine.forward_backward_batch(batch, policy_gradient)
            weights = [(name, p.grad) for name, p in engine.module.named_parameters() if p.grad is not None]
            trained = {name: gradient.full_tensor().clone() for name, gradient in weights}
        found[fused] = {name: output[name].values() for name in ("log_probs", "entropy")} | trained
    assert found[True].keys() == found[False].keys() and len(trained) > 10
    for name, expected in found[False].items():
        torch.testing.assert_close(found[True][name], expected, atol=1e-4, rtol=1e-3, msg=name)
