"""verl's fused kernels, which ``gpu1`` uses on small cards: log-probs, entropies and gradients are
those of the model's own logits, also under LoRA. Here on a CPU, by the functions that verl's engine
calls."""

from typing import Any

import pytest
import torch
from engine_probe import make_engine
from test_bf16 import rows_of_random_ids
from test_engines import policy_gradient
from transformers import Qwen3ForCausalLM
from verl.utils import tensordict_utils as tu
from verl.utils.experimental.torch_functional import FusedLinearForPPO
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from turngrid.experiments.cost_estimate import memory
from turngrid.verl_plugin.cpu import engines

TEMPERATURE = 0.7


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
