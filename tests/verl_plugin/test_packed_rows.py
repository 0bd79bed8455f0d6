"""What several rows begin with, computed once: the same log-probabilities, values and gradients as
padded rows."""

import sys
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from engine_probe import batch_of
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification
from verl.utils import tensordict_utils as tu
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

from turngrid.verl_plugin.cpu import packed_rows
from turngrid.verl_plugin.cpu.layout import Layout
from turngrid.verl_plugin.cpu.packed_rows import PackedLogits, PackedRows

FIRST, SECOND = [5, 6, 7, 8], [9, 10]
# prompt, response, mask: rows of two groups; two that go on alike; a row as verl pads a batch with,
# its ids those of another; a row that is the beginning of another
ROWS = [
    (FIRST, [11, 12, 13], [1, 0, 1]),
    (SECOND, [14, 15], [1, 1]),
    (FIRST, [11, 12, 18, 19, 20], [1, 1, 0, 0, 1]),
    (FIRST, [11, 12, 13], [0, 0, 0]),
    (SECOND, [14], [1]),
]
SIZES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def test_a_layout_by_hand():
    layout = Layout.of([prompt + response for prompt, response, _ in ROWS])
    assert layout.sizes == [0, 6, 1, 3, 3, 1]  # nothing; FIRST 11 12; 13; 18 19 20; SECOND 14; 15
    assert layout.paths == [[0, 1, 2], [0, 4, 5], [0, 1, 3], [0, 1, 2], [0, 4]]


def test_each_row_may_go_on_where_the_one_before_it_ends():
    rows = [[1] * length for length in range(1, 3001)]
    layout = Layout.of(rows)
    assert layout.sizes == [1] * 3000
    assert layout.paths[-1] == [*range(3000)] and layout.paths[1] == [0, 1]


class Bare:
    """verl's engine without its distributed set-up: the module stays as it is."""

    def _build_fsdp_module(self, module: nn.Module) -> nn.Module:
        return module


class Policy(Bare, FSDPEngineWithLMHead): ...


class Critic(Bare, FSDPEngineWithValueHead): ...


class OurPolicy(PackedLogits, Policy): ...


class OurCritic(PackedRows, Critic): ...


def outputs(kind: type, module: nn.Module, shared: bool) -> dict[str, torch.Tensor]:
    """What the engine says at action tokens, and the gradients of the sum of it."""
    batch = batch_of([prompt + response for prompt, response, _ in ROWS], response_mask=[mask for *_, mask in ROWS])
    tu.assign_non_tensor(batch, temperature=0.7, use_remove_padding=False, calculate_entropy=True)
    engine: Any = object.__new__(kind)
    engine.engine_config = SimpleNamespace(entropy_checkpointing=False, mixed_precision=None)
    engine.use_ulysses_sp = False
    engine.pad_to_length, engine.model_config = None, SimpleNamespace(hf_config=module.config)
    engine.module = engine._build_fsdp_module(module)
    assert getattr(engine, "by_rows", False) == shared
    inputs, arguments = engine.prepare_model_inputs(batch)
    found = engine.prepare_model_outputs(module(**inputs, use_cache=False), arguments, batch, None)
    # True where the next token is an action token, over all rows end to end
    judged = [[0] * (len(prompt) - 1) + [*mask, 0] for prompt, _, mask in ROWS]
    here = torch.tensor(list(chain(*judged))).bool()
    found = {name: values.values()[here] for name, values in found.items()}
    module.zero_grad()
    sum((values * torch.arange(1, len(values) + 1)).sum() for values in found.values()).backward()
    gradients = {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
    return {**{name: values.detach() for name, values in found.items()}, **gradients}


def model(kind: str, auto: Any, **more: Any) -> nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, intermediate_size=32, **SIZES, **more)
    return auto.from_config(config, attn_implementation="sdpa").double()


def same_as_verls(verls: type, ours: type, module: nn.Module, shared: bool = True) -> None:
    module.config._attn_implementation = "sdpa"
    theirs = outputs(verls, module, False)
    found = outputs(ours, module, shared)
    # transformers' norms compute in float32 whatever is given
    torch.testing.assert_close(found, theirs, atol=1e-5, rtol=1e-5)
    assert len(theirs) > 10 and all(values.abs().max() > 1e-6 for values in theirs.values())


@pytest.mark.parametrize("queries", [2, packed_rows.QUERIES])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_a_policy(kind: str, queries: int, monkeypatch: pytest.MonkeyPatch):
    """Query heads that share key heads among it; a row's queries that look all at once, and not."""
    monkeypatch.setattr(packed_rows, "QUERIES", queries)
    same_as_verls(Policy, OurPolicy, model(kind, AutoModelForCausalLM))


def test_a_critic():
    head = {"num_labels": 1, "classifier_dropout": 0.0}
    same_as_verls(Critic, OurCritic, model("qwen3", AutoModelForTokenClassification, **head))


@pytest.mark.parametrize(
    ("kind", "auto"), [(OurPolicy, AutoModelForCausalLM), (OurCritic, AutoModelForTokenClassification)]
)
def test_a_pass_without_an_action_has_a_gradient_of_zeros(kind: type, auto: Any, monkeypatch: pytest.MonkeyPatch):
    """As where all rows of a step were given up."""
    monkeypatch.setattr(sys.modules[__name__], "ROWS", [(FIRST, [11, 12], [0, 0])])
    found = outputs(kind, model("qwen3", auto, num_labels=1), True)
    said = [found.pop(name) for name in ("log_probs", "entropy", "values") if name in found]
    assert said and all(values.shape == (0,) for values in said)
    assert found and not any(gradient.any() for gradient in found.values())


def test_a_policy_with_an_adapter():
    base = model("qwen3", AutoModelForCausalLM)
    adapted = get_peft_model(base, LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")).double()
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter)
    same_as_verls(Policy, OurPolicy, adapted)


def test_a_policy_whose_activations_are_computed_again():
    module = model("qwen3", AutoModelForCausalLM)
    module.gradient_checkpointing_enable({"use_reentrant": False})
    same_as_verls(Policy, OurPolicy, module.train())


def test_a_window_of_attention_is_left_to_verl():
    window = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 3, "use_sliding_window": True}
    same_as_verls(Policy, OurPolicy, model("qwen3", AutoModelForCausalLM, **window), shared=False)
