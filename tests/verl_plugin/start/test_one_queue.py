"""The transfer queue's controller and storage in one process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from verl_plugin.cpu.start import one_queue

PLAIN = {
    "metrics": {"enabled": False},
    "backend": {"storage_backend": "SimpleStorage", "SimpleStorage": {"num_data_storage_units": 1}},
}
PUT_AND_GET = """
import sys
from verl_plugin.cpu.start.one_queue import OneQueue
from omegaconf import OmegaConf

queue = OneQueue(OmegaConf.create(%r))
print("torch" in sys.modules, "torch._dynamo" in sys.modules)
import torch, transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import interface
interface._maybe_create_tq_client(queue.get_config())
rows = TensorDict({"ids": torch.arange(6).view(3, 2)}, batch_size=3)
tq.kv_batch_put(keys=["a", "b", "c"], partition_id="train", fields=rows, tags=[{"n": n} for n in range(3)])
got = tq.kv_batch_get(keys=["c", "a"], partition_id="train", select_fields=["ids"])["ids"]
print([row.tolist() for row in got.unbind()])
print(tq.kv_list("train")["train"]["b"])
tq.kv_clear(keys=["a", "b", "c"], partition_id="train")
print(tq.kv_list("train").get("train", {}))
import torch._dynamo
print(torch._dynamo.__file__.endswith("_dynamo/__init__.py"), flush=True)
import os; os._exit(0)
"""


def test_rows_come_back_from_a_queue_in_one_process() -> None:
    command = [sys.executable, "-c", PUT_AND_GET % PLAIN]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["True False", "[[4, 5], [0, 1]]", "{'n': 1}", "{}", "True"], done.stderr


@pytest.mark.parametrize(
    "other",
    [
        {"backend": {"SimpleStorage": {"num_data_storage_units": 2}}},
        {"backend": {"SimpleStorage": {"ssd_offload": {"enabled": True}}}},
        {"backend": {"storage_backend": "MooncakeStore"}},
        {"metrics": {"enabled": True}},
        {"controller": {"polling_mode": True}},
    ],
)
def test_a_queue_with_more_to_it_is_left_to_the_library(other: dict[str, object]) -> None:
    assert one_queue.fits(OmegaConf.create(PLAIN))
    assert not one_queue.fits(OmegaConf.merge(PLAIN, other))
