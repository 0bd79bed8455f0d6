"""Our way of joining turns, which renders a message once, gives the ids of verl's own, which
renders it every time."""

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer

from turngrid.config.base import ROOT
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.servers.transformers_server.launch import devices_of_replica, replicas

TEXTS = ("You open the box.", "", "You see a key.\nExits: north.", "You open the box.")


@pytest.mark.parametrize("stopped", [True, False], ids=["ended its turn", "cut off"])
def test_turns_are_joined_as_verl_joins_them(stopped: bool) -> None:
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "assets" / "tiny")
    codec = TokenCodec(tokenizer, "qwen3")
    messages = [{"role": "system", "content": "You play."}, {"role": "user", "content": "You are in a room."}]
    ids = codec.first_prompt(messages)
    for text in TEXTS:
        action = tokenizer.encode("open box", add_special_tokens=False) + [codec.eos_id] * stopped
        new = {"role": "user", "content": text}
        verls = codec._builder.merge_context_tokens([], [new], ids + action).token_ids
        joined = codec.join(ids + action, [new])
        assert joined == list(verls)
        assert joined[: len(ids + action)] == ids + action
        ids = joined


@pytest.mark.parametrize(
    ("tensor", "data", "pipeline", "servers"), [(1, 1, 1, 16), (2, 1, 1, 8), (2, 2, 2, 2), (16, 2, 1, 1)]
)
def test_servers_share_devices_as_verl_deals_them(tensor: int, data: int, pipeline: int, servers: int) -> None:
    sizes = {"tensor": tensor, "data": data, "pipeline": pipeline}
    keys = {
        "tensor": "tensor_model_parallel_size",
        "data": "data_parallel_size",
        "pipeline": "pipeline_model_parallel_size",
    }
    rollout = OmegaConf.create({keys[name]: size for name, size in sizes.items()})
    assert devices_of_replica(rollout) == tensor * data * pipeline
    assert replicas(OmegaConf.create({"n_gpus_per_node": 8, "nnodes": 2}), rollout) == servers
