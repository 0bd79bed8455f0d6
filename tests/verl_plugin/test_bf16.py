"""bf16 on a CPU: server and engine against transformers and against fp32, on small models."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_probe import TINY, batch_of, make_engine
from tensordict import TensorDict
from test_engines import policy_gradient, value_error, with_advantages
from torch.nn.functional import cosine_similarity
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import sft_loss

from turngrid.records.models.shape import LLAMA_LIKE
from turngrid.verl_plugin.bf16 import LIKELIEST, OutputHead
from turngrid.verl_plugin.servers.transformers_server.generator import Generator, SampleRequest

Gradients = dict[str, torch.Tensor]
Update = tuple[Any, float, Gradients]
SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}


def forced(model: Any, ids: list[int], count: int) -> torch.Tensor:
    """Transformers' log-probs of the last ``count`` ids."""
    logits = model(torch.tensor([ids])).logits[0, -count - 1 : -1].float()
    return logits.log_softmax(-1)[torch.arange(count), ids[-count:]]


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral", "olmo2"])
def test_server_and_engine_in_bf16_are_as_near_to_fp32_as_transformers_in_bf16(kind: str, tmp_path: Path):
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SIZES, sliding_window=None, pad_token_id=None)
    exact = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        exact.get_output_embeddings().weight.mul_(20)  # logits as a trained model has them, of about 3
    rounded = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    rounded.load_state_dict(exact.state_dict())
    own = copy.deepcopy(config)  # the generator sets its attention there
    served = AutoModelForCausalLM.from_config(own, dtype=torch.bfloat16, attn_implementation="sdpa")
    generator = Generator(served, eos_ids=[])
    generator.load_weights(exact.state_dict().items())
    lengths = range(20, 100, 10)  # of prompts: their keys and values are in one chunk of the cache or in two
    requests = [SampleRequest(f"r{n}", [3 + j % 60 for j in range(n)], 16, 1.0, seed=n) for n in lengths]
    answers = generator.generate(requests)
    exact.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path)
    engine, masks = make_engine(path=str(tmp_path), precision="bf16"), [[1] * 16] * len(answers)
    rows = [[*request.prompt_ids, *answer.token_ids] for request, answer in zip(requests, answers, strict=True)]
    with engine.eval_mode():
        trained = engine.infer_batch(with_settings(batch_of(rows, response_mask=masks, loss_mask=masks)))
    passed = trained["model_output"]["log_probs"].unbind()
    ours, theirs, apart, engines = [], [], [], []
    with torch.inference_mode():
        for request, answer, row in zip(requests, answers, passed, strict=True):
            ids, told = [*request.prompt_ids, *answer.token_ids], torch.tensor(answer.logprobs)
            full, half = (forced(model, ids, len(told)) for model in (exact, rounded))
            ours.append(told - full)
            theirs.append(half - full)
            apart.append(told - half)
            engines.append(row[len(request.prompt_ids) - 1 :][: len(told)] - full)
    mine, other, between, engine_s = (torch.cat(rows).abs().mean() for rows in (ours, theirs, apart, engines))
    nearer = 0.9 if kind in LLAMA_LIKE else 1  # their hidden states are fp32, and all logits
    assert 1e-4 < mine < nearer * other and between < 1.5 * other and 1e-4 < engine_s < 1.1 * nearer * other


def test_logits_are_not_rounded():
    """A row has 200 logits of about 20, so that rounding to bf16 moves them by up to 0.06."""
    torch.manual_seed(0)
    head, hidden = OutputHead(64, 200, dtype=torch.bfloat16), torch.randn(5, 64, dtype=torch.bfloat16)
    head.weight.data *= 20
    exact = torch.nn.functional.linear(hidden.double(), head.weight.double(), head.bias.double())
    apart = (head(hidden) - exact).abs()
    assert apart.max() < 1e-4
    head.sampling = True
    apart, rank = (head(hidden) - exact).abs(), exact.argsort(descending=True).argsort()
    assert apart[rank < LIKELIEST - 5].max() < 1e-4 and 1e-2 < apart[rank > LIKELIEST + 5].max() < 0.1


def with_settings(batch: TensorDict) -> TensorDict:
    settings = {"use_remove_padding": False, "use_dynamic_bsz": False, "micro_batch_size_per_gpu": 8}
    tu.assign_non_tensor(batch, temperature=1.0, **settings)
    return batch


def random_rows(shortest: int = 24) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(10, 1000, (shortest + row,), generator=generator).tolist() for row in range(8)]


def long_rows() -> list[list[int]]:
    """Two groups of four rows of 300 to 307 tokens, which share their first 240."""
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randint(10, 1000, (2, 240), generator=generator).tolist()
    return [[*(first if row < 4 else second), *rest] for row, rest in enumerate(random_rows(60))]


def learned(precision: str, batch: TensorDict, loss: Any, kind: str = "language_model", **how: Any) -> Update:
    """An engine after an update, its loss, and the gradients by layer."""
    engine = make_engine(kind, precision=precision, **how)
    engine.optimizer_zero_grad()
    with engine.train_mode():
        output = engine.forward_backward_batch(batch, loss)
        gradients = by_layer({n: p.grad.full_tensor().clone() for n, p in engine.module.named_parameters()})
        engine.optimizer_step()
    return engine, sum(output["loss"]), gradients


def least_cosine(one: Gradients, other: Gradients) -> float:
    return min(float(cosine_similarity(one[name], exact, dim=0)) for name, exact in other.items())


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(("kind", "loss"), [("language_model", policy_gradient), ("value_model", value_error)])
def test_gradients_are_those_of_fp32_and_all_that_is_kept_is_fp32(kind: str, loss: Any, long: bool):
    """The cosine of each layer's gradient; weights, gradients and Adam's moments are kept. Long
    rows share a pass and its prefix, and activations are computed again."""
    masks = [[1] * (60 if long else 16)] * 8
    batch = batch_of(long_rows() if long else random_rows(), response_mask=masks, loss_mask=masks)
    tu.assign_non_tensor(batch, temperature=1.0, use_remove_padding=False, use_dynamic_bsz=False)
    with_advantages(batch, [1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -0.25])
    tu.assign_non_tensor(batch, micro_batch_size_per_gpu=4 if long else 1)
    found = {}
    for precision in ("fp32", "bf16"):
        engine, _, found[precision] = learned(precision, batch, loss, kind, checkpointing=long)
        moments = [moment for state in engine.optimizer.state.values() for moment in state.values()]
        kept = [*engine.module.parameters(), *moments, *found[precision].values()]
        assert {tensor.dtype for tensor in kept} == {torch.float32}
    assert len(found["fp32"]) >= 6 and 0.999 < least_cosine(found["bf16"], found["fp32"]) < 1 - 1e-7


@pytest.mark.usefixtures("one_process")
def test_rows_of_sft_run_without_padding_and_their_gradients_are_those_of_fp32():
    rows = random_rows()
    batch = batch_of(rows, loss_mask=[[0] * 10 + [1, 1, 0, 0] * 3 + [1] * (len(row) - 22) for row in rows])
    settings = {"use_remove_padding": False, "use_dynamic_bsz": True, "max_token_len_per_gpu": 100, "dp_size": 1}
    tu.assign_non_tensor(batch, temperature=1.0, **settings)
    engine, exact, gradients = learned("fp32", batch, partial(sft_loss, None))
    packed, loss, rounded = learned("bf16", batch, partial(sft_loss, None))
    assert engine._layout is None and packed._layout is not None
    assert loss == pytest.approx(exact, rel=2e-3) and exact > 1
    assert least_cosine(rounded, gradients) > 0.999


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("kind", ["language_model", "value_model"])
def test_an_engine_rounds_neither_hidden_states_nor_logits_nor_values(kind: str):
    """verl's autocast would round what the head computes in fp32."""
    engine, seen = make_engine(kind, precision="bf16"), []
    (head,) = (module for module in engine.module.modules() if isinstance(module, OutputHead))
    engine.module.model.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    head.register_forward_hook(lambda _, inputs, output: seen.append(output))
    with engine.eval_mode():
        engine.infer_batch(
            with_settings(batch_of(random_rows(), response_mask=[[1] * 16] * 8, loss_mask=[[1] * 16] * 8))
        )
    assert len(seen) == 2 and all((one.bfloat16().float() != one).any() for one in seen)


def by_layer(gradients: Gradients) -> Gradients:
    """A block's gradients end to end; those outside of blocks by their names."""
    layers: dict[str, list[torch.Tensor]] = {}
    for name, gradient in gradients.items():
        key = ".".join(name.split(".")[:3]) if ".layers." in name else name
        layers.setdefault(key, []).append(gradient.flatten())
    return {key: torch.cat(parts) for key, parts in layers.items()}
