"""A trainer's whole step without rollouts: its own methods, verl's queue and verl's workers, all in
the calling process.

The rows that would have been played are made up; everything that is done with them, from padding to
the optimizers, is real.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from transfer_queue import KVBatchMeta
from transformers import AutoTokenizer
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import value_loss

from turngrid.algorithms.chosen import method_class
from turngrid.algorithms.contexts import Context
from turngrid.algorithms.registry import ON_BATCH, SLOTS
from turngrid.algorithms.turn_table import turn_ids
from turngrid.config.compose import composer
from turngrid.experiments.stages.rl import rl_config
from turngrid.tasks.run import Run
from turngrid.verl_plugin.rollout.contexts import field_of, packed
from turngrid.verl_plugin.training.task import TRAINERS

TINY = Path(__file__).parents[2] / "assets" / "tiny"
PROMPTS = 8  # of a step
SMALL = ("model=tiny", "budget=rl_only", "budget.rl_steps=2", f"data.train_batch_size={PROMPTS}")
MASK = (1, 1, 1, 0, 0, 1, 1)  # of a response: an action, an observation, an action


class Workers:
    """A worker group of one worker, which is called and not sent for."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self._dispatch_info = {"actor": [0]}

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: Answer(getattr(self.worker, name)(*arguments, **named))


class Answer:
    """What verl takes from a worker group: an answer, or something to wait for."""

    futures: ClassVar[list] = []  # for ray.get

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def get(self) -> Any:
        return self._answer

    def __getitem__(self, name: str) -> Any:
        return self._answer[name]

    def __len__(self) -> int:
        return len(self._answer)


class Played:
    """Stands for verl's replay buffer: the next prompts' episodes, which are in the queue."""

    def __init__(self, samples: int, windows: int) -> None:
        self._samples, self._windows, self._prompts = samples, windows, 0
        self.row = made_up

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        first, self._prompts = self._prompts, self._prompts + batch_size
        rows = [
            self.row(f"{prompt:04d}", sample, window)
            for prompt in range(first, self._prompts)
            for sample in range(self._samples)
            for window in range(1 + (prompt * self._samples + sample) % self._windows)
        ]
        keys, fields, tags = map(list, zip(*rows, strict=True))
        tq.kv_batch_put(keys=keys, partition_id=partition_id, fields=list_of_dict_to_tensordict(fields), tags=tags)
        return KVBatchMeta(keys=keys, tags=tags, partition_id=partition_id), {}


def made_up(
    prompt: str, sample: int, window: int, masked: Sequence[int] = MASK
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Key, fields and tag of a row, as the agent loops write them."""
    draw = torch.Generator().manual_seed(1000 * int(prompt) + 10 * sample + window)
    prompts, responses = (torch.randint(5, 60, (size,), generator=draw) for size in (3 + sample, len(masked)))
    mask, ids = torch.tensor(masked), torch.cat([prompts, responses])
    fields = {
        "prompts": prompts,
        "responses": responses,
        "response_mask": mask,
        "loss_mask": mask,
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "rm_scores": torch.tensor([0.0] * (len(masked) - 1) + [float(sample % 3)]),
        "rollout_log_probs": -(5 + torch.rand(len(mask), generator=draw)) * mask,
        "entropy": 4 * torch.rand(len(mask), generator=draw) * mask,
        "uid": prompt,
        "num_turns": 2,
        **turns_of(sample),
        **contexts_of(ids, mask),
    }
    tag = {"seq_len": len(ids), "prompt_len": len(prompts), "response_len": len(responses)}
    return f"{prompt}_{sample}_{window}", fields, tag | {"min_global_steps": 0, "max_global_steps": 0}


def contexts_of(ids: Tensor, mask: Tensor) -> dict[str, Any]:
    """Of every method that has any: the row as it is, and each of its turns."""
    scored, numbers = torch.zeros(len(ids), dtype=torch.int64), turn_ids(mask[None])[0]
    scored[len(ids) - len(mask) :] = numbers
    turns = [Context(ids.tolist(), (scored == turn + 1).tolist(), turn) for turn in range(int(numbers.max()))]
    whole = [Context(ids.tolist(), (scored > 0).tolist(), 0)] if turns else []
    methods = ((f"{slot}/{name}", method_class(slot, name, {})) for slot in ON_BATCH for name in SLOTS[slot])
    return {
        field_of(name): packed(turns if kind.scores == "turns" else whole)
        for name, kind in methods
        if hasattr(kind, "contexts")
    }


def turns_of(sample: int) -> dict[str, Any]:
    """What is told of the two turns of ``MASK``: all samples begin alike, and every fourth has an
    invalid turn."""
    seen, odd = [0, 1 + sample % 2, 9], sample % 4 == 3
    told = {"state": seen[:2], "after": seen[1:], "action": [0, sample % 2], "valid": [1, 1 - odd]}
    told |= {"parsed": [1, 1 - odd], "garbled": [0, 0], "outcome": [sample % 4]}
    told |= {"label": [2, 1], "span_switch_first": [0, 0], "span_switch_last": [1, 1]}
    told |= {
        "span_subgoal_first": [1, 1],
        "span_subgoal_last": [2, 1],
        "span_action_first": [2, 1],
        "span_action_last": [3, 2],
    }
    return {f"turn_{name}": torch.tensor(numbers) for name, numbers in told.items()}


def composed(folder: Path, *overrides: str) -> DictConfig:
    with composer() as compose:
        config = compose([*SMALL, *overrides])
    return rl_config(Run(config, folder), Run(config).allocation, str(TINY))


def made(config: DictConfig, model: str, windows: int) -> Any:
    """The trainer that a run with this config has, with fresh copies of a model; episodes have 1 to
    ``windows`` rows."""
    config.actor_rollout_ref.model.path = config.critic.model.path = model
    probed: Any = TRAINERS[config.trainer.v1.trainer_mode](config)
    probed.global_steps, probed.timing_raw, probed.ref_in_actor, probed.distillation_config = 1, {}, False, None
    probed.total_training_steps = 2
    probed.now.begin(1, 2)
    probed.tokenizer = AutoTokenizer.from_pretrained(TINY)
    probed.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
    probed.replay_buffer = Played(config.actor_rollout_ref.rollout.n, windows)
    probed.prepare_step = probed.on_sample_begin = probed.on_sample_end = dict  # what plays
    probed.actor_rollout_wg = Workers(_worker(config, "actor"))
    if probed.use_reference_policy:
        probed.ref_policy_wg = Workers(_worker(config, "ref"))
    if probed.use_critic:
        probed.critic_wg = Workers(_critic(config))
    return probed


def _worker(config: DictConfig, role: str) -> DetachActorWorker:
    worker = DetachActorWorker(OmegaConf.create(config.actor_rollout_ref), role=role)
    worker.init_model()
    return worker


def _critic(config: DictConfig) -> TrainingWorker:
    critic = omega_conf_to_dataclass(config.critic)
    critic.engine.infer_max_token_len_per_gpu = critic.engine.max_token_len_per_gpu = (
        critic.ppo_infer_max_token_len_per_gpu
    )
    worker = TrainingWorker(
        TrainingWorkerConfig(
            model_type="value_model",
            model_config=critic.model,
            engine_config=critic.engine,
            optimizer_config=critic.optim,
            checkpoint_config=critic.checkpoint,
        )
    )
    worker.reset()
    worker.set_loss_fn(partial(value_loss, config=critic))
    return worker


def adam_steps(worker: TrainingWorker) -> set[int]:
    """How often the optimizer stepped, for each weight."""
    return {int(state["step"]) for state in worker.engine.optimizer.state.values()} or {0}
