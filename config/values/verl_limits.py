"""Limits of verl's keys for values that verl would refuse only after SFT, when its workers start,
or never.

An entry applies to every key that ends with its name; if several do, the longest one applies. Other
keys have only a type (``verl_schema.json``), and numbers must be finite.
"""

from __future__ import annotations

from turngrid.algorithms.registry import ALGORITHMS, LOSS_MODE, ON_TURNS, QUIRKS, words
from turngrid.config.values.limits import Limit, Only, Range, Types, Words, optional, real, whole
from turngrid.config.values.verl_schema import policy_losses

COUNT = whole(1, 10**9)
BATCH = whole(1, 10**6)
SHARE = real(0, 1)
CLIP = real(0, 1000)
STEPS = whole(0, 10**9)
SEED = whole(0, 2**32 - 1)
PROCESSES = whole(1, 1024)
TEXT = Types(frozenset({"str"}))
OUR_LORA = "the run's own key is model.lora_"
NO_ADAPTER = (
    "LoRA begins with a new adapter; merge yours into its model (PEFT's merge_and_unload) and name that: "
    "model.path=FOLDER"
)
NO_CRITIC = "a critic is trained whole, with LoRA too"
CRITIC_LORA = {
    "lora_rank": 0,
    "lora_alpha": 16,
    "target_modules": "all-linear",
    "lora_adapter_path": None,
    "lora.rank": 0,
}
KL = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
LOGGERS = ("console", "tensorboard", "wandb", "trackio", "mlflow", "swanlab", "vemlp_wandb", "clearml", "file")
FSDP = Words(("fsdp", "fsdp2"))
DTYPE = Words(("fp32", "float32", "bf16", "bfloat16", "fp16", "float16"))
KL_STRAIGHT = tuple(f"{name}+" for name in KL)
OURS = tuple(algorithm.estimator for algorithm in (*ALGORITHMS.values(), *QUIRKS.values()))
# verl's others ask for data that its V1 trainer does not have here, and opo divides by 0 in rows of
# padding
VERLS = ("grpo", "grpo_vectorized", "grpo_passk", "rloo", "rloo_vectorized", "reinforce_plus_plus_baseline", "gpg")
ESTIMATORS = (*OURS, *VERLS)
CONTENTS = ("model", "optimizer", "extra", "hf_model")


def _as_algo(word: object) -> str | None:
    """Return the ``algo=`` for a method that verl-agent and RAGEN choose by this key."""
    return f"algo={word}" if isinstance(word, str) and word in words() else None


LIMITS: dict[str, Limit] = {
    # the algorithm
    "algorithm.adv_estimator": Words((*ESTIMATORS, ON_TURNS), elsewhere=_as_algo),
    "algorithm.gamma": SHARE,
    "algorithm.lam": SHARE,
    "algorithm.kl_penalty": Words((*KL, *KL_STRAIGHT)),
    "algorithm.rollout_correction.rollout_is": Words(("token", "sequence"), null=True),
    "algorithm.rollout_correction.rollout_is_threshold": real(1e-6, 10**6),  # verl's text "0.5_2.0" is not offered
    "kl_ctrl.type": Words(("fixed", "adaptive")),
    "kl_ctrl.kl_coef": CLIP,
    "kl_ctrl.horizon": COUNT,
    "kl_ctrl.target_kl": CLIP,
    # policy, reference and critic
    "policy_loss.loss_mode": Words(("vanilla", LOSS_MODE), more=policy_losses),
    "policy_loss.clip_cov_ratio": real(1e-9, 1),  # verl: above 0
    "policy_loss.clip_cov_lb": real(-(10**6), 10**6),
    "policy_loss.clip_cov_ub": real(-(10**6), 10**6),
    "loss_scale_factor": optional(COUNT),
    "loss_agg_mode": Words(
        ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean")
    ),
    "actor.kl_loss_type": Words((*KL, *KL_STRAIGHT)),
    "actor.kl_loss_coef": CLIP,
    "actor.entropy_coeff": real(-10, 10),
    "clip_ratio": CLIP,
    "clip_ratio_low": CLIP,
    "clip_ratio_high": CLIP,
    "clip_ratio_c": real(1.01, 1000),  # verl: more than 1
    "critic.cliprange_value": CLIP,
    "ppo_epochs": whole(1, 1000),
    "ppo_mini_batch_size": BATCH,
    "ppo_micro_batch_size": optional(BATCH),
    "ppo_micro_batch_size_per_gpu": optional(BATCH),
    "ppo_max_token_len_per_gpu": COUNT,
    "ppo_infer_max_token_len_per_gpu": COUNT,
    "log_prob_micro_batch_size": optional(BATCH),
    "log_prob_micro_batch_size_per_gpu": optional(BATCH),
    "log_prob_max_token_len_per_gpu": COUNT,
    "forward_micro_batch_size": optional(BATCH),
    "forward_micro_batch_size_per_gpu": optional(BATCH),
    "data_loader_seed": optional(SEED),
    "grad_clip": real(0, 10**6, null=True),
    "optim.lr": SHARE,
    "optim.betas": Range(0, 0.999999, each=True),
    "optim.optimizer": Words(("AdamW", "Adam", "NAdam", "RAdam", "Adamax", "SGD", "RMSprop", "Adagrad", "Adadelta")),
    "optim.optimizer_impl": Words(("torch.optim",)),
    "optim.lr_scheduler_type": Words(("constant", "cosine")),
    "checkpoint.save_contents": Words(CONTENTS, each=True),
    "checkpoint.load_contents": Words(CONTENTS, each=True),
    "actor.strategy": FSDP,
    "critic.strategy": FSDP,
    "fsdp_config.strategy": FSDP,
    "fsdp.strategy": FSDP,
    "optim.weight_decay": real(0, 10),
    "optim.clip_grad": real(1e-6, 10**6),
    "optim.lr_warmup_steps": whole(0, 10**9, -1, null=True),
    "optim.lr_warmup_steps_ratio": SHARE,
    "optim.total_training_steps": whole(1, 10**9, -1),
    "optim.min_lr_ratio": real(0, 1, null=True),
    "optim.num_cycles": real(0, 1000),
    "mixed_precision.param_dtype": DTYPE,
    "mixed_precision.reduce_dtype": DTYPE,
    "mixed_precision.buffer_dtype": DTYPE,
    "fsdp_size": whole(1, 10**6, -1),
    "ulysses_sequence_parallel_size": PROCESSES,
    "model.lora_rank": Only(0, OUR_LORA + "rank"),
    "model.lora_alpha": Only(16, OUR_LORA + "alpha"),
    "model.target_modules": Only("all-linear", OUR_LORA + "target_modules"),
    "model.exclude_modules": Only(None, OUR_LORA + "target_modules"),
    "model.target_parameters": Only(None, OUR_LORA + "target_modules"),
    "model.lora_adapter_path": Only(None, NO_ADAPTER),
    "model.lora.rank": Only(0, OUR_LORA + "rank"),
    "model.lora.merge": Only(False, "it follows from rollout="),
    "model.lora.adapter_path": Only(None, NO_ADAPTER),
    **{f"critic.model.{key}": Only(value, NO_CRITIC) for key, value in CRITIC_LORA.items()},
    "custom_cls.name": Types(frozenset({"str"})),
    "custom_cls.path": Types(frozenset({"str", "null"})),
    # rollouts
    "actor_rollout_ref.rollout.name": Words(("transformers", "vllm")),
    "rollout.mode": Words(("async",)),
    "rollout.load_format": Words(("auto", "dummy", "hf", "pt", "safetensors")),
    "rollout.dtype": Words(("auto", "half", "float16", "bfloat16", "float", "float32")),
    "prompt_length": COUNT,
    "response_length": COUNT,
    "rollout.n": whole(1, 10**4),
    "rollout.temperature": real(0.01, 10),  # the trainer divides by it
    "val_kwargs.temperature": real(0, 10),
    "val_kwargs.n": whole(1, 10**4),
    "top_p": real(0.001, 1),
    "top_k": whole(1, 10**9, 0, -1),
    "rollout.nnodes": whole(0, 4096),
    "rollout.n_gpus_per_node": whole(0, 64),
    "seed": SEED,
    "gpu_memory_utilization": real(0.01, 1),
    "tensor_model_parallel_size": PROCESSES,
    "data_parallel_size": PROCESSES,
    "pipeline_model_parallel_size": PROCESSES,
    "expert_parallel_size": PROCESSES,
    "max_num_seqs": BATCH,
    "update_weights_bucket_megabytes": BATCH,
    "max_num_batched_tokens": COUNT,
    "max_model_len": optional(COUNT),
    "rollout.over_sample_rate": SHARE,
    "agent.num_workers": PROCESSES,
    "agent.default_agent_loop": Words(("turngrid",)),  # no other knows our environments
    # data
    "data.train_batch_size": BATCH,
    "data.gen_batch_size": optional(BATCH),
    "data.val_batch_size": optional(BATCH),
    "data.max_prompt_length": optional(COUNT),
    "data.max_response_length": optional(COUNT),
    "data.dataloader_num_workers": whole(0, 1024),
    "data.filter_overlong_prompts_workers": optional(PROCESSES),
    "data.train_max_samples": whole(1, 10**9, -1),
    "data.val_max_samples": whole(1, 10**9, -1),
    "data.seed": optional(SEED),
    # the trainer
    "trainer.nnodes": whole(1, 4096),
    "trainer.n_gpus_per_node": whole(1, 64),
    "trainer.logger": Words(LOGGERS, each=True),
    "trainer.device": Words(("cpu", "cuda")),
    "trainer.save_freq": COUNT,  # evaluation plays what was saved; after the last step there is always one
    "trainer.test_freq": whole(0, 10**9, -1),
    "trainer.total_epochs": COUNT,
    "trainer.val_only": Only(False, "python -m experiments.evaluate evaluates without training"),
    "trainer.total_training_steps": optional(COUNT),
    "trainer.critic_warmup": STEPS,
    "trainer.log_val_generations": STEPS,
    "trainer.max_actor_ckpt_to_keep": optional(COUNT),
    "trainer.max_critic_ckpt_to_keep": optional(COUNT),
    "trainer.ray_wait_register_center_timeout": real(0.1, 10**8),  # seconds
    "trainer.resume_mode": Only("auto", "extend=runs/NAME lengthens a run, fresh=true starts one anew"),
    "v1.colocate_async.num_warmup_batches": real(0, 10**9),  # verl takes parts of a batch too
    "v1.separate_async.num_warmup_batches": real(0, 10**9),
    "v1.separate_async.parameter_sync_step": COUNT,
    "v1.sampler.max_off_policy_threshold": COUNT,
    "v1.sampler.max_off_policy_strategy": Words(("wait", "drop")),
    "trainer.project_name": TEXT,
    "trainer.experiment_name": TEXT,
    # what lies under them
    "reward.num_workers": whole(0, 1024),
    "ray_init.num_cpus": whole(1, 10**6, null=True),
    "ray_init.num_gpus": real(0, 10**6, null=True),
    "ray_init.object_store_memory": whole(75 * 2**20, 10**14, null=True),  # bytes; Ray takes no less
    "SimpleStorage.num_data_storage_units": PROCESSES,
    "SimpleStorage.total_storage_size": COUNT,
}


def limit_of(key: str) -> Limit | None:
    """Return the entry for a dotted key."""
    parts = key.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((LIMITS[end] for end in ends if end in LIMITS), None)
