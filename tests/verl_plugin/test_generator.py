"""The generator against transformers' generate, teacher forcing, and distributions by hand."""

import gc
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from plain_model import Plain
from transformers import (
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from turngrid.verl_plugin.servers.transformers_server import packing
from turngrid.verl_plugin.servers.transformers_server.forward import LlamaForward, ModuleForward
from turngrid.verl_plugin.servers.transformers_server.generator import Generator, RequestTooLong, Sample, SampleRequest
from turngrid.verl_plugin.servers.transformers_server.key_values import BLOCK

PAD, VOCABULARY = 0, 97
EOS = list(range(1, 10))  # many, so that some rows of a batch end early
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
    "initializer_range": 0.15,  # far enough from uniform for greedy choices to be no matter of rounding
    "attn_implementation": "sdpa",
}
LLAMA31 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
NINE_HEADS = {"hidden_size": 36, "num_attention_heads": 9}
FAMILIES: dict[str, Callable[[], Any]] = {
    "qwen3": lambda: Qwen3ForCausalLM(
        Qwen3Config(**SHAPE, num_key_value_heads=4, head_dim=8, tie_word_embeddings=True)
    ),
    "qwen3-grouped": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, num_key_value_heads=2, head_dim=16)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE, num_key_value_heads=2, tie_word_embeddings=True)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, num_key_value_heads=1, tie_word_embeddings=True)),
    "llama3.1": lambda: LlamaForCausalLM(
        LlamaConfig(**SHAPE, num_key_value_heads=4, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA31)
    ),
    "smollm2": lambda: LlamaForCausalLM(
        LlamaConfig(**SHAPE | NINE_HEADS, num_key_value_heads=3, rms_norm_eps=1e-5, tie_word_embeddings=True)
    ),
    "gpt_neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SHAPE)),
    "granite": lambda: GraniteForCausalLM(
        GraniteConfig(**SHAPE, num_key_value_heads=2, logits_scaling=2.0, attention_multiplier=0.5)
    ),
}
OWN_FORWARD = set(FAMILIES) - {"gpt_neox", "granite"}  # the others go through transformers' modules
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def make_model(family: str = "qwen3", device: str = "cpu", seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return FAMILIES[family]().float().eval().to(device)


def make_generator(family: str = "qwen3", device: str = "cpu", **kwargs: Any) -> Generator:
    return Generator(make_model(family, device), EOS, **kwargs)


def prompts(count: int, longest: int = 40, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(10, VOCABULARY) for _ in range(rng.randrange(1, longest))] for _ in range(count)]


def requests_for(rows: Sequence[Sequence[int]], **kwargs: Any) -> list[SampleRequest]:
    defaults = {"max_tokens": 8, **kwargs}
    return [SampleRequest(f"r{i}", ids, seed=1000 + i, **defaults) for i, ids in enumerate(rows)]


def assert_teacher_forced(
    model: Any, requests: Sequence[SampleRequest], results: Sequence[Sample], within: float = 1e-5
) -> None:
    for request, result in zip(requests, results, strict=True):
        expected = Plain(model=model).log_probs(request.prompt_ids, result.token_ids, request.temperature)
        torch.testing.assert_close(torch.tensor(result.logprobs), expected, atol=within, rtol=0)


class Episodes:
    """12 episodes, the samples of 4 prompts, that do in a random order what episodes do: go on,
    slide a window, start again, ask as a new request, or ask for nothing in this turn. One in three
    is greedy."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.first = prompts(4) * 3
        self.rows, self.names = [list(ids) for ids in self.first], [f"r{i}" for i in range(len(self.first))]

    def requests(self, turn: int) -> dict[int, SampleRequest]:
        """By episode, in any order."""
        asking = self.rng.sample(range(len(self.rows)), self.rng.randrange(1, len(self.rows) + 1))
        temperatures = [0.0, 0.7, 1.7]
        return {
            i: SampleRequest(
                self.names[i], self.rows[i], self.rng.randrange(1, 12), temperatures[i % 3], seed=turn * 64 + i
            )
            for i in (asking if turn else range(len(self.rows)))
        }

    def answer(self, number: int, result: Sample) -> None:
        row = self.rows[number] + result.token_ids + self.rng.choices(range(10, VOCABULARY), k=self.rng.randrange(1, 9))
        happened = self.rng.choice(["goes on"] * 6 + ["window", "window", "retry", "renamed"])
        if happened == "window" or len(row) > 120:
            row = self.first[number] + row[-9:]
        elif happened == "retry":
            row = list(self.first[number])
        elif happened == "renamed":
            self.names[number] += "'"
        self.rows[number] = row


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("rows_at_once", "mask_elements"), [(1, packing.MASK_ELEMENTS), (5, 2000)])
@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_episodes_do_answers_are_those_of_plain_transformers(
    family: str, rows_at_once: int, mask_elements: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over 8 turns with weights updated in their midst, memory for a third of what there is to
    keep, and masks so small that long rows are cut."""
    monkeypatch.setitem(packing.ROWS_AT_ONCE, device, rows_at_once)
    monkeypatch.setattr(packing, "MASK_ELEMENTS", mask_elements)
    token_bytes = make_generator(family, device).memory.token_bytes
    generator, episodes = make_generator(family, device, prefix_bytes=1024 * token_bytes), Episodes()
    assert type(generator.forward) is (LlamaForward if family in OWN_FORWARD else ModuleForward)
    for turn in range(8):
        if turn % 4 == 0:
            model = make_model(family, device, seed=turn)
            generator.load_weights(model.state_dict().items())
            assert len(generator.memory) == generator.memory.nbytes == 0
        requests = episodes.requests(turn)
        results = generator.generate(list(requests.values()))
        assert_teacher_forced(model, list(requests.values()), results)
        for (number, request), result in zip(requests.items(), results, strict=True):
            if request.temperature == 0:
                ends = {"eos_token_id": EOS, "pad_token_id": PAD}
                assert result.token_ids == Plain(model=model).greedy(request.prompt_ids, request.max_tokens, **ends)
            episodes.answer(number, result)
    assert 0 < len(generator.memory) <= 4 and generator.memory.nbytes <= generator.memory.limit_bytes


def test_the_same_requests_give_the_same_bits_whatever_was_asked_before() -> None:
    """What fits is counted from the last update on: a server that has seen larger batches evicts
    like a new one."""
    used, new = (make_generator(prefix_bytes=300_000) for _ in range(2))
    used.generate(requests_for(prompts(40, longest=150, seed=7)))
    used.load_weights(make_model().state_dict().items())
    for turn in range(3):
        requests = requests_for([ids + [11 + turn] * 60 * turn for ids in prompts(9)], temperature=1.0)
        assert used.generate(requests) == new.generate(requests)
        assert len(used.memory) == len(new.memory)


def fed_tokens(generator: Generator, requests: Sequence[SampleRequest]) -> int:
    """Ids that went through the embedding."""
    counts: list[int] = []
    handle = generator.model.model.embed_tokens.register_forward_pre_hook(
        lambda _, args: counts.append(args[0].numel())
    )
    generator.generate(requests)
    handle.remove()
    return sum(counts)


def test_only_what_is_new_is_computed() -> None:
    generator = make_generator()
    ids = prompts(1, 200)[0] + [5] * 50
    answer = generator.generate([SampleRequest("a", ids, 3)])[0]
    longer = [*ids, *answer.token_ids, 7, 8, 9]
    assert fed_tokens(generator, [SampleRequest("a", longer, 1)]) == 4, "the last sampled token and three new ones"
    assert fed_tokens(generator, [SampleRequest("a", longer, 1)]) == 1, "a prompt that is known to its end feeds one"
    changed = [*longer[:-3], 10, 11]
    assert fed_tokens(generator, [SampleRequest("a", changed, 1)]) == 2, "where ids part, all after it is new"
    assert fed_tokens(generator, [SampleRequest("b", changed, 1)]) == len(changed), "another episode shares nothing"


def test_a_prompt_that_several_ask_for_is_fed_once() -> None:
    generator, ids = make_generator(), [5] * 30
    group = [SampleRequest(f"r{i}", ids, 3, seed=i) for i in range(8)]
    assert fed_tokens(generator, [*group, SampleRequest("other", [6] * 20, 1)]) < 30 + 20 + 2 * 8 + 1
    longer = [SampleRequest(f"r{i}", [*ids, 7, 8], 1, seed=i) for i in range(8)]
    assert fed_tokens(generator, longer) == 2, "each of them kept the prompt, one reads what is new to all"


def test_an_episode_that_outgrows_its_stretch_takes_what_it_knows_along() -> None:
    memory, ids = make_generator().memory, [5] * 100
    (first,) = memory.take([SampleRequest("a", ids, 1)])
    memory.put("a", first, ids)
    known = torch.randn_like(memory.buffer[:, :, :, :100])
    memory.buffer[:, :, :, first.start : first.start + 100] = known
    (longer,) = memory.take([SampleRequest("a", [*ids, 6], BLOCK)])
    assert (longer.size, len(longer.ids)) == (2 * BLOCK, 100) and longer.start != first.start
    assert torch.equal(memory.buffer[:, :, :, longer.start : longer.start + 100], known)
    memory.put("a", longer, longer.ids)
    (other,) = memory.take([SampleRequest("b", [7], 1)])
    assert other.start == first.start, "what it left is free again"


def test_sampling_leaves_nothing_that_holds_the_buffer() -> None:
    gc.collect()
    gc.disable()  # a cycle would hold gigabytes until Python looks for cycles
    try:
        make_generator().generate(requests_for(prompts(2)))
        assert not [one for one in gc.get_objects() if isinstance(one, packing.Packing)]
    finally:
        gc.enable()


def test_tied_embeddings_come_without_the_head() -> None:
    """Trainers that keep one tensor for both send it once."""
    generator, other = make_generator(), make_model(seed=2)
    weights = {name: tensor for name, tensor in other.state_dict().items() if name != "lm_head.weight"}
    generator.load_weights(weights.items())
    assert generator.model.lm_head.weight is generator.model.model.embed_tokens.weight
    assert torch.equal(generator.model.lm_head.weight, other.lm_head.weight)


@pytest.mark.parametrize(("family", "lacks"), [("qwen3", "model.norm.weight"), ("qwen3-grouped", "lm_head.weight")])
def test_weights_that_do_not_fit_are_refused_whole(family: str, lacks: str) -> None:
    """An untied head is missed, too."""
    generator = make_generator(family)
    old = {name: tensor.clone() for name, tensor in generator.model.state_dict().items()}
    state = dict(make_model(family, seed=1).state_dict())
    lacking = {name: tensor for name, tensor in state.items() if name != lacks}
    with pytest.raises(ValueError, match=rf"missing \['{lacks}'\]"):
        generator.load_weights(lacking.items())
    with pytest.raises(ValueError, match=r"unexpected \['no.such'\]"):
        generator.load_weights({**state, "no.such": torch.zeros(1)}.items())
    assert all(torch.equal(old[name], tensor) for name, tensor in generator.model.state_dict().items())


def test_a_request_that_does_not_fit_is_refused() -> None:
    generator = make_generator()
    generator.generate([SampleRequest("fits", [5] * 250, 6)])
    with pytest.raises(RequestTooLong, match=r"long: 251 \+ 6 tokens, the model's context holds 256"):
        generator.generate([SampleRequest("short", [5], 2), SampleRequest("long", [5] * 251, 6)])
    with pytest.raises(ValueError, match="0 prompt ids"):
        generator.generate([SampleRequest("empty", [], 2)])
    with pytest.raises(ValueError, match="at most 0 more"):
        generator.generate([SampleRequest("nothing", [5], 0)])
    assert generator.generate([]) == []


def test_diverged_weights_are_an_error_and_leave_no_trace() -> None:
    generator, rows = make_generator(), prompts(4)
    good = {name: tensor.clone() for name, tensor in generator.model.state_dict().items()}
    expected = generator.generate(requests_for(rows))
    generator.load_weights({name: tensor * torch.nan for name, tensor in good.items()}.items())
    with pytest.raises(FloatingPointError, match="not finite"):
        generator.generate(requests_for(rows))
    generator.load_weights(good.items())
    assert [r.token_ids for r in generator.generate(requests_for(rows))] == [r.token_ids for r in expected]


def test_sliding_windows_are_refused() -> None:
    config = Qwen2Config(**SHAPE, num_key_value_heads=4, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    for model in (Qwen2ForCausalLM(config), MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=8))):
        with pytest.raises(ValueError, match="sliding_attention"):
            Generator(model, EOS)
