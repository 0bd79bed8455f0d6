"""Where keys and values stand, who loses them first, and that nobody reads another's."""

import gc
from collections.abc import Sequence

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from turngrid.rollouts.sampling import SampleRequest
from turngrid.verl_plugin.servers.transformers_server.generator import Generator
from turngrid.verl_plugin.servers.transformers_server.key_values import BLOCK, KeyValues, Stretch
from turngrid.verl_plugin.servers.transformers_server.packing import Packing


@pytest.fixture(scope="module")
def model() -> Qwen3ForCausalLM:
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=16, num_hidden_layers=2, intermediate_size=8, **sizes))


def memory_for(model: Qwen3ForCausalLM, blocks: int) -> KeyValues:
    return KeyValues(model, blocks * BLOCK * 2 * 2 * 1 * 4 * 4)  # layers, key or value, heads, head size, bytes


def take(memory: KeyValues, name: str, ids: Sequence[int], more: int = 1) -> Stretch:
    [stretch] = memory.take([SampleRequest(name, ids, more)])
    return stretch


def keep(memory: KeyValues, name: str, ids: Sequence[int]) -> Stretch:
    stretch = take(memory, name, ids)
    memory.put(name, stretch, ids)
    return stretch


def test_an_episode_that_outgrows_its_stretch_takes_what_it_knows_along(model: Qwen3ForCausalLM) -> None:
    memory = memory_for(model, blocks=4)
    first = keep(memory, "a", [5] * 100)
    known = torch.randn(2, 2, 1, 100, 4)
    memory.buffer[:, :, :, first.start : first.start + 100] = known
    longer = take(memory, "a", [5] * 100 + [6], more=BLOCK)
    assert (longer.size, len(longer.ids)) == (2 * BLOCK, 100) and longer.start != first.start
    assert torch.equal(memory.buffer[:, :, :, longer.start : longer.start + 100], known)
    memory.put("a", longer, longer.ids)
    assert take(memory, "b", [7]).start == first.start, "what it left is free again"


def test_no_two_requests_of_a_batch_share_a_place_even_beyond_the_limit(model: Qwen3ForCausalLM) -> None:
    memory = memory_for(model, blocks=2)
    keep(memory, "old", [1, 2])
    sizes = [1, BLOCK, 3 * BLOCK, 5]
    stretches = memory.take([SampleRequest("twice", [1] * size, 1) for size in sizes])
    places = [place for one in stretches for place in range(one.start, one.start + one.size)]
    assert len(set(places)) == len(places) and max(places) < memory.buffer.shape[3]
    assert [one.size for one in stretches] == [BLOCK, 2 * BLOCK, 4 * BLOCK, BLOCK]
    for stretch, size in zip(stretches, sizes, strict=True):
        memory.put("twice", stretch, [1] * size)
    assert len(memory) == 1 and memory.nbytes <= memory.limit_bytes, (
        "one name, one stretch; what is too large is not kept"
    )


def test_released_memory_is_given_back_and_taken_again(model: Qwen3ForCausalLM) -> None:
    memory = memory_for(model, blocks=2)
    keep(memory, "a", [1, 2, 3])
    memory.release()
    assert (len(memory), memory.buffer.numel()) == (0, 0)
    assert not take(memory, "a", [1, 2, 3]).ids and memory.buffer.shape[3] == 2 * BLOCK


def test_sampling_leaves_nothing_that_holds_the_buffer(model: Qwen3ForCausalLM) -> None:
    gc.collect()
    gc.disable()  # a cycle would hold gigabytes until Python looks for cycles
    try:
        Generator(model, [0]).generate([SampleRequest(name, [1, 2, 3], 3, seed=1) for name in "ab"])
        assert not [one for one in gc.get_objects() if isinstance(one, Packing)]
    finally:
        gc.enable()
