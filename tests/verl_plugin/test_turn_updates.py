"""Updates turn by turn through verl's own queue, with the specification's numbers: what each update
sees, and what it hands on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transfer_queue as tq
from example_step import put, read
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from usual import method
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from turngrid.verl_plugin.training import zero_advantages
from turngrid.verl_plugin.training.turn_updates import update_by_turn

Z = {"P_0": 1.13893, "P_1": -0.88583, "P_2": -0.88583, "P_3": 0.63274, "Q_4": -0.67492, "Q_5": 1.34984, "Q_6": -0.67492}
TURNS = {"P_1": 3, "P_3": 3}  # the others have two
CHANGES = [[1.1, 0.95, 1.05, 1.1, 0.7, 1, 1.02], [1.1, 0.95, 1.05, 1.1, 0.7, 1, 1.02], [0.9, 1.3]]
WANTED = [
    {"P_1": -0.88583, "P_3": 0.63274},
    {**Z, "P_1": -0.79725, "P_3": 0.75928},
    dict(zip(Z, [1.25282, -0.75739, -0.93012, 0.75928, -0.53994, 1.34984, -0.68842], strict=True)),
]
MULTIPLE = 4


def rows(partition: str, dead: str = "") -> KVBatchMeta:
    """A row a turn, of one to three tokens behind a prompt; the one that is ``dead`` is muted."""
    keys, fields = [], []
    for number, (name, z) in enumerate(Z.items()):
        for turn in range(TURNS.get(name, 2)):
            keys.append(f"{name}_{turn}")
            size, prompt = 1 + (number + turn) % 3, 3 + turn
            mask = torch.full((size,), int(keys[-1] != dead))
            fields.append(
                {
                    "prompts": torch.arange(prompt),
                    "responses": torch.arange(size),
                    "input_ids": torch.arange(prompt + size),
                    "position_ids": torch.arange(prompt + size),
                    **dict.fromkeys(("response_mask", "loss_mask", "turn_ids"), mask),
                    "rm_scores": mask.float(),
                    **dict.fromkeys(("rollout_log_probs", "old_log_probs", "ref_log_prob"), torch.full((size,), -5.0)),
                    "advantages": z * mask.float(),
                    "uid": name[0],
                    "multi_modal_inputs": {},
                }
            )
    batch = put(partition, keys, fields)
    batch.fields, batch.extra_info = list(fields[0]), {}
    return batch


@dataclass
class Policy:
    """Log-probs of every token of a row, which an update changes by what the example says."""

    seen: list[dict[str, float]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    log_prob: float = -1.0

    def log_probs(self, batch: KVBatchMeta) -> None:
        assert batch.extra_info[zero_advantages.KEY] == "" and batch.extra_info["compute_loss"] is False
        data = read(batch, "input_ids")
        told = [
            {"log_probs": torch.full((len(row),), self.log_prob + self.change(key))}
            for key, row in zip(batch.keys, data["input_ids"].unbind(), strict=True)
        ]
        tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=list_of_dict_to_tensordict(told))

    def change(self, key: str) -> float:
        """In nats; of rows that have just been updated."""
        turn = int(key.rpartition("_")[2])
        updated = self.seen and key.rpartition("_")[0] in self.seen[-1] and len(self.seen) == 3 - turn
        names = [name for name in Z if TURNS.get(name, 2) > turn]
        return math.log(CHANGES[turn][names.index(key.rpartition("_")[0])]) if updated else 0.0

    def update(self, batch: KVBatchMeta, metrics: dict[str, Any], updates: int) -> None:
        assert updates == 1
        names = ["advantages", "old_log_probs", "response_mask", "turn_ids", "ref_log_prob"]
        data = read(batch, *names)
        lengths = [[len(row) for row in data[name].unbind()] for name in names]
        assert all(own == lengths[0] for own in lengths), "a padding row has columns of other lengths"
        real = [number for number, mask in enumerate(data["response_mask"].unbind()) if mask.any()]
        assert all((data["old_log_probs"][row] == self.log_prob).all() for row in real)
        self.seen.append({batch.keys[row].rpartition("_")[0]: data["advantages"][row][0].item() for row in real})
        self.sizes.append(len(batch))
        metrics["actor/pg_loss"] = float(len(self.seen))


def run(batch: KVBatchMeta, **settings: Any) -> tuple[Policy, dict[str, Any]]:
    policy, metrics = Policy(), {}
    update_by_turn(batch, metrics, method("algo", "seeupo", **settings), 1, trainer(policy))
    return policy, metrics


def trainer(policy: Policy) -> Any:
    return SimpleNamespace(
        actor_rollout_wg=SimpleNamespace(compute_log_prob=policy.log_probs),
        learn_rows=policy.update,
        tokenizer=SimpleNamespace(eos_token_id=0),
        windows=SimpleNamespace(rows=MULTIPLE),
        config=OmegaConf.create({"actor_rollout_ref": {"rollout": {"temperature": 1.0}}}),
    )


def assert_seen(found: Sequence[dict[str, float]], wanted: Sequence[dict[str, float]]) -> None:
    assert [one.keys() for one in found] == [one.keys() for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert list(one.values()) == pytest.approx(list(other.values()), abs=1e-5)


def test_each_update_sees_its_turn_and_what_the_later_ones_changed(queue: None) -> None:
    batch = rows("turns")
    policy, metrics = run(batch)
    assert_seen(policy.seen, WANTED)
    assert policy.sizes == [4, 8, 8]  # padded
    assert set(tq.kv_list(partition_id="turns")["turns"]) == set(batch.keys), "padding was left in the queue"
    assert metrics["actor/pg_loss"] == 2.0 and metrics["actor/turn_updates"] == 3.0


def test_a_turn_number_with_few_rows_has_no_update(queue: None) -> None:
    policy, metrics = run(rows("few"), fewest=3)
    assert_seen(policy.seen, [Z, Z])
    assert metrics["actor/turn_updates"] == 2.0
