"""Limits of verl's keys.

``verl_schema.json`` has their types (``benchmarks/verl_schema.py`` writes it). A number is at least
verl's own value if that is 0 or less; else it is at least 0, and a whole number at least 1.
``LIMITS`` has what is narrower, for values that verl would refuse only after SFT, when its workers
start, or never. An entry applies to every key that ends with its name; if several do, the longest.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from turngrid.algorithms.registry import ALGORITHMS, LOSS_MODE, ON_TURNS, words
from turngrid.config import base
from turngrid.config.asynchronous import MODES
from turngrid.config.values.limits import WORD, Bounds, Limit, Only, Range, Types, Word, Words
from turngrid.records.run_folder import dotted

FILE = Path(__file__).with_name("verl_schema.json")
SCHEMA: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
SHARE = Range(0, 1)
SEED = Range(0, 2**32 - 1, whole=True)
NONE_TOO = Range(0, whole=True)
OR_NULL = Range(1, whole=True, null=True)
KEPT = Range(2, whole=True, null=True)  # verl deletes the last checkpoint before the next one is whole
TEXT = Types(frozenset({"str"}))
LORA = re.compile(r"(actor_rollout_ref|critic)\.model\.(lora_\w+|lora\.\w+|target_\w+|exclude_modules)")
OUR_LORA = "the run's own keys are model.lora_*; LoRA begins with a new adapter, and a critic is trained whole"
KL = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
KL_PENALTY = Words((*KL, *(f"{name}+" for name in KL)))
DTYPE = Words(("fp32", "float32", "bf16", "bfloat16", "fp16", "float16"))
CONTENTS = Words(("model", "optimizer", "extra", "hf_model"), each=True)
# verl's other estimators ask for data that its V1 trainer does not have here, and opo divides by 0
# in rows of padding
VERLS = ("grpo", "grpo_vectorized", "grpo_passk", "rloo", "rloo_vectorized", "reinforce_plus_plus_baseline", "gpg")
ESTIMATORS = (*(algorithm.estimator for algorithm in ALGORITHMS.values()), *VERLS)
REJECTIONS = (
    *(f"{level}_{kind}" for level in ("token", "seq_sum", "seq_mean") for kind in ("k1", "k2", "k3")),
    "seq_max_k2",
    "seq_max_k3",
)
AS_ALGO = {word: f"algo={word}" for word in words()}  # methods that verl-agent and RAGEN choose by verl's key

LIMITS: dict[str, Limit] = {
    "algorithm.adv_estimator": Words((*ESTIMATORS, ON_TURNS), instead=AS_ALGO),
    "algorithm.gamma": SHARE,
    "algorithm.lam": SHARE,
    "algorithm.kl_penalty": KL_PENALTY,
    "rollout_correction.rollout_is": Words(("token", "sequence"), null=True),
    "rollout_correction.rollout_is_threshold": Bounds(1),  # a weight is truncated, or dropped outside LOWER_UPPER
    "rollout_correction.rollout_rs": Words(REJECTIONS, null=True),
    "rollout_correction.rollout_rs_threshold": Bounds(1e-9),
    "kl_ctrl.type": Words(("fixed", "adaptive")),
    "policy_loss.loss_mode": Words(("vanilla", LOSS_MODE, *SCHEMA["losses"])),
    "policy_loss.clip_cov_ratio": Range(1e-9, 1),
    "policy_loss.clip_cov_lb": Range(-(10**6)),
    "policy_loss.clip_cov_ub": Range(-(10**6)),
    "loss_agg_mode": Words(
        ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean")
    ),
    "actor.kl_loss_type": KL_PENALTY,
    "entropy_coeff": Range(-10, 10),
    "clip_ratio_c": Range(1.01),
    "data_loader_seed": SEED,
    "seed": SEED,
    "optim.lr": SHARE,
    "optim.betas": Range(0, 0.999999, each=True),
    "optim.clip_grad": Range(1e-6),
    "optim.optimizer": Words(("AdamW", "Adam", "NAdam", "RAdam", "Adamax", "SGD", "RMSprop", "Adagrad", "Adadelta")),
    "optim.optimizer_impl": Words(("torch.optim",)),
    "optim.lr_scheduler_type": Words(("constant", "cosine")),
    "optim.lr_warmup_steps_ratio": SHARE,
    "optim.min_lr_ratio": SHARE,
    "checkpoint.save_contents": CONTENTS,
    "checkpoint.load_contents": CONTENTS,
    "strategy": Words(("fsdp", "fsdp2")),
    "mixed_precision.param_dtype": DTYPE,
    "mixed_precision.reduce_dtype": DTYPE,
    "mixed_precision.buffer_dtype": DTYPE,
    "actor_rollout_ref.rollout.name": Words(("transformers", "vllm")),
    "rollout.mode": Words(("async",)),
    "rollout.load_format": Words(("auto", "dummy", "hf", "pt", "safetensors")),
    "rollout.dtype": Words(("auto", "half", "float16", "bfloat16", "float", "float32")),
    "rollout.temperature": Range(0.01, 10),  # the trainer divides by it
    "rollout.over_sample_rate": SHARE,
    "rollout.n_gpus_per_node": NONE_TOO,
    "top_p": Range(0.001, 1),
    "gpu_memory_utilization": Range(0.01, 1),
    "agent.default_agent_loop": Words(("turngrid",)),  # no other knows our environments
    "data.dataloader_num_workers": NONE_TOO,
    "data.train_max_samples": Only(-1, "budget.games=GAMES sets their number"),
    "data.val_max_samples": Only(-1, "eval.validation_games=GAMES sets their number"),
    "data.max_prompt_length": OR_NULL,  # filled in at the end
    "data.max_response_length": OR_NULL,
    "reward.num_workers": NONE_TOO,
    "num_to_backward_prefetch": NONE_TOO,
    "num_to_forward_prefetch": NONE_TOO,
    "profile_token_start": NONE_TOO,
    "trainer.logger": Words(
        ("console", "tensorboard", "wandb", "trackio", "mlflow", "swanlab", "vemlp_wandb", "clearml", "file"), each=True
    ),
    "trainer.device": Words(("cpu", "cuda")),
    "trainer.save_freq": Range(1, whole=True),  # evaluation plays what was saved
    "trainer.max_actor_ckpt_to_keep": KEPT,
    "trainer.max_critic_ckpt_to_keep": KEPT,
    "trainer.use_v1": Only(True, "only verl's V1 trainer keeps turn rewards"),
    "v1.trainer_mode": Words(MODES),
    "trainer.val_only": Only(False, "python -m experiments.evaluate evaluates without training"),
    "trainer.resume_mode": Only("auto", "extend=runs/NAME lengthens a run, fresh=true starts one anew"),
    "v1.colocate_async.num_warmup_batches": Range(0),  # verl takes parts of a batch too
    "v1.separate_async.num_warmup_batches": Range(0),
    "v1.sampler.max_off_policy_strategy": Words(("wait", "drop")),
    "trainer.project_name": TEXT,
    "trainer.experiment_name": TEXT,
    "ray_init.num_cpus": OR_NULL,
    "ray_init.num_gpus": Range(0, null=True),
    "ray_init.object_store_memory": Range(75 * 2**20, 10**14, whole=True, null=True),  # bytes; Ray takes no less
}


@dataclass(frozen=True)
class Key:
    """One key of verl."""

    types: Types  # the types that it may have
    value: Any  # verl's own value
    names: frozenset[str]  # the keys of the node's dataclass; empty: any key may be added

    def limit(self, name: str) -> Limit:
        """Return the limit of this key, whose dotted name is ``name``."""
        if LORA.fullmatch(name):  # some of these keys verl would ignore
            return Only(self.value, OUR_LORA)
        stated = stated_limit(name)
        if stated is None:
            return self._by_value(name)
        if isinstance(stated, Range | Words) and self.types.problem(None) is None:
            return dataclasses.replace(stated, null=True)
        return stated

    def _by_value(self, name: str) -> Limit:
        value, kinds = self.value, self.types.names - {"null"}
        if name.endswith("._target_"):
            return Only(value, "verl makes this class of the node")
        if kinds and kinds <= {"int", "float"}:
            whole, null = kinds == {"int"}, "null" in self.types.names
            low = value if isinstance(value, int | float) and value <= 0 else int(whole)
            return Range(low, whole=whole, null=null)
        one_word = kinds == {"str"} == self.types.names and isinstance(value, str) and WORD.fullmatch(value)
        return Word() if one_word and "/" not in value else self.types


@cache
def verl_keys() -> Mapping[str, Key]:
    """Return the keys of verl's config tree and of its dataclasses by dotted name."""
    values, names = dict(dotted(OmegaConf.to_container(base.verl_tree()))), SCHEMA["nodes"]
    return {
        key: Key(Types(frozenset(types.split("|")) - {""}), values.get(key), frozenset(names.get(key, ())))
        for key, types in SCHEMA["keys"].items()
    }


def stated_limit(key: str) -> Limit | None:
    """Return the entry of ``LIMITS`` for a dotted key."""
    parts = key.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((LIMITS[end] for end in ends if end in LIMITS), None)
