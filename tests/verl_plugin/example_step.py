"""Example X as the rows of a step, and a trainer with methods over them."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

sys.path.append(str(Path(__file__).parents[1] / "algorithms"))  # for the tests that import this file, too

import transfer_queue as tq
from example_x import PATHS, episode_rows
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from usual import filled
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from turngrid import verl_plugin  # noqa: F401 - registers the estimators
from turngrid.algorithms.registry import SLOTS
from turngrid.config.compose import composer
from turngrid.tasks.run import Run
from turngrid.verl_plugin.training.credit_log import CreditLog
from turngrid.verl_plugin.training.step import Step
from turngrid.verl_plugin.training.step_methods import Methods
from turngrid.verl_plugin.training.step_records import StepGroups
from turngrid.verl_plugin.training.task import TurngridTrainer


def row_of(record: dict[str, Any], prompt: int) -> dict[str, Any]:
    mask = torch.tensor(record["mask"])
    responses = torch.arange(1, len(mask) + 1)
    fields = {
        "uid": record["group"],
        "task": f"game {record['group']}",
        "prompts": torch.arange(prompt),
        "responses": responses,
        "input_ids": torch.cat([torch.arange(prompt), responses]),
        "position_ids": torch.arange(prompt + len(mask)),
        "response_mask": mask,
        "loss_mask": mask,
        "rm_scores": torch.tensor(record["reward"]),
        "rollout_log_probs": torch.full((len(mask),), -1.0),
        "old_log_probs": torch.full((len(mask),), -1.0),
        "entropy": torch.tensor(record["entropy"]),
        "values": torch.tensor(record["values"]),
        "multi_modal_inputs": {},
    }
    parsed = {"parsed": [1] * len(record["state"])}
    names = ["state", "after", "action", "valid", "parsed", "outcome", "named_half"]
    names += [name for name in record if name.startswith(("span_", "label"))]
    fields |= {f"values_{head}": fields["values"] * head for head in (1, 2)}
    return fields | {f"turn_{name}": torch.tensor((record | parsed)[name]) for name in names}


def batch_of(partition: str, windows: bool = False, dead: bool = False) -> KVBatchMeta:
    """Example X as a step's rows, padded as verl pads."""
    keys, rows = [], []
    for name in PATHS:
        for number, record in enumerate(episode_rows(name, windows)):
            keys.append(f"{name}_{number}")
            rows.append(row_of(record, prompt=3 + number))
    for group in "PQ" if dead else "":
        keys.append(f"{group}_9_0")
        rows.append(row_of(episode_rows("P_1", False)[0] | {"group": group}, 3))
        rows[-1] |= {name: torch.zeros_like(rows[-1][name]) for name in ("loss_mask", "response_mask")}
    return upsample_batch_to_divisible_size(put(partition, keys, rows), 16, 0)


def put(partition: str, keys: list[str], rows: list[dict[str, Any]]) -> KVBatchMeta:
    """Rows as agent loops leave them in the queue."""
    steps = {"status": "success", "global_steps": 1, "min_global_steps": 0, "max_global_steps": 0}
    sizes = (("prompt_len", "prompts"), ("response_len", "responses"), ("seq_len", "input_ids"))
    tags = [steps | {tag: len(row[field]) for tag, field in sizes} for row in rows]
    tq.kv_batch_put(keys=keys, partition_id=partition, fields=list_of_dict_to_tensordict(rows), tags=tags)
    return KVBatchMeta(keys=keys, tags=tags, partition_id=partition)


def read(batch: KVBatchMeta, *names: str, keys: list[str] | None = None) -> TensorDict:
    """Fields of a batch, or of some of its rows."""
    return tq.kv_batch_get(keys=keys or batch.keys, partition_id=batch.partition_id, select_fields=list(names))


def write(batch: KVBatchMeta, keys: list[str] | None = None, **fields: Any) -> None:
    keys = keys or batch.keys
    tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(keys)))


def moved(column: torch.Tensor, by: float) -> torch.Tensor:
    """A jagged column whose numbers are so much higher."""
    return torch.nested.nested_tensor_from_jagged(column.values() + by, column.offsets())


def trainer(slots: dict[str, Any]) -> TurngridTrainer:
    """Without the workers, which nothing here needs."""
    algorithm = {"adv_estimator": "turngrid_grpo", "gamma": 1.0, "lam": 1.0, "norm_adv_by_std_in_grpo": True}
    return with_parts(
        OmegaConf.create(
            {
                "seed": 0,
                "tracking": {"credit": True, "reasoning": 0, "reasoning_every": 1},
                "algo": {"name": "grpo"},
                "algorithm": {**algorithm, "use_kl_in_reward": False, "rollout_correction": None},
                "actor_rollout_ref": {"rollout": {"n": 4}},
                "trainer": {"critic_warmup": 0},
                **filled({slot: slots.get(slot, {}) for slot in SLOTS}),
            }
        )
    )


def trainer_of(*overrides: str) -> TurngridTrainer:
    """As the front door composes it."""
    with composer() as composed:
        return with_parts(composed([*overrides, "actor_rollout_ref.rollout.n=4"]))


def with_parts(config: DictConfig) -> TurngridTrainer:
    made: Any = object.__new__(TurngridTrainer)
    made.config, made.global_steps, made.windows = config, 1, None
    made.use_critic = made.use_reference_policy = False
    made.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
    made.now = Step(1, 10)
    run = Run(config, Path())
    made.methods, made.credit = Methods(run, made.now), CreditLog(config.tracking.credit, made.now)
    made.groups = StepGroups(run.rl, 4, made.now)
    return made


def estimated(made: Any, batch: KVBatchMeta, metrics: dict[str, Any] | None = None) -> KVBatchMeta:
    """The batch after those parts of a step that verl times as ``adv``."""
    for part in made.parts():
        if part.timer == "adv" and part.wanted:
            batch = part.run(batch, {} if metrics is None else metrics)
    return batch


def turns_of(batch: KVBatchMeta, column: str = "advantages") -> dict[str, list[float]]:
    """By episode the number of each turn, which all of its tokens must have."""
    real = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding")]
    data = read(batch, column, "turn_ids", keys=real)
    turns: dict[str, list[float]] = {}
    for number, key in enumerate(real):
        advantages, ids = data[column][number], data["turn_ids"][number]
        assert not advantages[ids == 0].any()
        for turn in range(1, int(ids.max()) + 1):
            (value,) = advantages[ids == turn].unique().tolist()
            turns.setdefault(key.rpartition("_")[0], []).append(value)
    return turns
