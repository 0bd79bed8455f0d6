"""What is replaced in verl's modules at run time: for each name, why, and when the entry goes.

``hooks`` carries out ``AFTER_IMPORT``; ``docs/verl.md`` shows everything. A function is named with verl's
parameters, so that a test finds the entry that a new version of verl breaks. What verl offers for others to
fill in (registries, abstract methods, class names in its config) is no change of verl. Methods of verl's
that our classes override are found from the classes (``verl_plugin.overrides``).
"""

from __future__ import annotations

from dataclasses import dataclass

CPU = "verl runs on CPUs"
MENDED = "verl has mended it"
METHODS = "verl's losses take columns and terms of a plugin"
HEADS = "verl's critics have several heads"
WINDOWS = "verl counts episodes, and not rows"


@dataclass(frozen=True)
class Change:
    """One name in a module of verl's.

    Attributes:
        name: of verl's, with its parameters if it is a function.
        by: ``module:name`` of ours, which takes its place. If ``wraps``, it is called with verl's own and
            returns what takes its place.
        until: what has to be so for the entry to go.
        bug: an error of verl 0.9.1, which ``tests/verl_plugin/test_verl_bugs.py`` reproduces.
    """

    module: str
    name: str
    by: str
    why: str
    until: str
    wraps: bool = True
    bug: bool = False

    def __str__(self) -> str:
        return f"{self.module}:{self.name} (changed by {self.by})"


_TRAINER, _ENGINE = "verl.trainer.ppo.v1.trainer_base", "verl.workers.engine.fsdp.transformer_impl"
_CHECKPOINTS = "verl.utils.checkpoint.fsdp_checkpoint_manager"

# In every process of verl's, right after it has imported the module
AFTER_IMPORT = (
    Change(
        "verl.trainer.ppo.core_algos",
        "verl_F.masked_whiten(values, mask, shift_mean)",
        "algorithms.masked:whiten",
        "whitens in float64, so that equal values give exactly 0",
        "verl does",
        wraps=False,
    ),
    Change(
        _TRAINER,
        "apply_kl_penalty(data, kl_ctrl, kl_penalty)",
        "verl_plugin.training.estimators:apply_kl_penalty",
        "verl's mean of the KL counts padding rows, and misleads its adaptive controller",
        MENDED,
        wraps=False,
        bug=True,
    ),
    Change(
        _TRAINER,
        "compute_advantage_for_multi_trajectories"
        "(data, batch_keys, adv_estimator, gamma, lam, num_repeat, norm_adv_by_std_in_grpo, config)",
        "verl_plugin.training.episode_advantages:by_episode",
        "an episode of several rows is one sequence to an estimator; verl weighs it by its rows, GRPO takes its last",
        WINDOWS,
    ),
    Change(
        _TRAINER,
        "compute_data_metrics(batch, use_critic)",
        "verl_plugin.training.tracking:with_moments",
        "logs the spread of advantages, returns and values",
        "verl logs it",
    ),
    Change(
        _TRAINER,
        "Tracking",
        "verl_plugin.training.tracking:RunTracking",
        "trackers go on after a restart, with each step once",
        "verl lets a config name the class",
        wraps=False,
    ),
    Change(
        "verl.trainer.ppo.v1.trainer_separate_async",
        "logger",
        "verl_plugin.mends:without_flush",
        "without rollouts on the trainer's devices verl hands its logger an argument of print, and ends",
        MENDED,
        bug=True,
    ),
    Change(
        "verl.workers.rollout.base",
        "_ROLLOUT_REGISTRY",
        "verl_plugin.mends:with_our_server",
        "the trainer's side of our rollout server",
        "verl offers a decorator, as it does for engines",
    ),
    Change(
        "verl.workers.utils.losses",
        "ppo_loss(config, model_output, data, dp_group)",
        "verl_plugin.training.losses:with_methods",
        "losses that need turn ids, loss terms, updates with every token muted",
        METHODS,
    ),
    Change(
        "verl.workers.utils.losses",
        "value_loss(config, model_output, data, dp_group)",
        "verl_plugin.value_heads:sum_of_heads",
        "a loss for each head of the critic",
        HEADS,
    ),
    Change(
        "verl.utils.model",
        "load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code)",
        "verl_plugin.value_heads:with_heads",
        "critics with several heads",
        HEADS,
    ),
    Change(
        _ENGINE,
        "FSDPEngineWithValueHead.prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func)",
        "verl_plugin.value_heads:each_head",
        "critics with several heads",
        HEADS,
    ),
    Change(
        _ENGINE,
        "FSDPEngine.forward_backward_batch(self, data, loss_function, forward_only)",
        "verl_plugin.training.losses:with_sums",
        "loss terms are divided by their weights over all passes and devices",
        METHODS,
    ),
    Change(
        _ENGINE,
        "FSDPEngine._build_module(self)",
        "verl_plugin.whole_models:whole",
        "a checkpoint that lacks weights is refused, not filled with random ones",
        "verl refuses it",
    ),
    Change(
        _ENGINE,
        "FSDPEngine._build_lora_module(self, module)",
        "verl_plugin.lora:seeded",
        "adapters are seeded, and layers that cannot be merged are refused",
        "verl does both",
    ),
    Change(
        _ENGINE,
        "FSDPEngine._merged_lora_per_tensor_param(self)",
        "verl_plugin.lora:streamed",
        "weights are sent in the trainer's precision, and merged in a copy",
        "verl does both",
        wraps=False,
    ),
    Change(
        _CHECKPOINTS,
        "get_fsdp_full_state_dict(model, offload_to_cpu, rank0_only)",
        "verl_plugin.lora:merged_state",
        "LoRA is saved merged, under the model's names, so that every loader takes the checkpoint",
        "verl merges it",
    ),
    Change(
        _CHECKPOINTS,
        "FSDPCheckpointManager.save_checkpoint(self, local_path, hdfs_path, global_step, max_ckpt_to_keep)",
        "verl_plugin.lora:with_adapter",
        "saves the adapter too, in PEFT's format",
        "verl saves it with FSDP2",
    ),
    Change(
        "verl.workers.engine_workers",
        "ActorRolloutRefWorker.init_model(self)",
        "verl_plugin.training.teacher:with_teacher",
        "a teacher is loaded in the place of the reference policy, for which verl copies the policy",
        "verl's reference has a path of its own",
    ),
    Change(
        "verl.utils.fsdp_utils",
        "fsdp2_sharded_save_to_cpu(model)",
        "verl_plugin.mends:save_copies",
        "on CPUs, verl's copy of the weights is the weights themselves",
        MENDED,
        bug=True,
    ),
)

# By our own code, in the process that needs it, some only while verl's function runs
BY_US = (
    Change(
        _TRAINER,
        "TRAINER_REGISTRY",
        "verl_plugin.training.task:train",
        "our trainers under verl's names of modes, by which verl chooses the replay buffer",
        "verl lets a config name the class",
    ),
    Change(
        "verl.trainer.sft_trainer",
        "Tracking",
        "verl_plugin.sft:Tracking",
        "as in the RL trainer",
        "verl lets a config name the class",
    ),
    Change(
        "verl.utils.model",
        "get_hf_auto_model_class(hf_config)",
        "verl_plugin.whole_models:whole",
        "a checkpoint that lacks weights is refused, not filled with random ones",
        "verl refuses it",
    ),
    Change(
        _ENGINE,
        "prepare_micro_batches"
        "(data, dp_group, num_batches_divided_by, same_micro_num_in_dp, min_num_micro_batch, use_dynamic_bsz_balance)",
        "verl_plugin.cpu.micro_batches:prepare",
        "on CPUs: rows that begin alike share a pass, and rows without a gradient have none",
        CPU,
    ),
    Change(
        _ENGINE,
        "CPUOffloadPolicy",
        "verl_plugin.cpu.engines:_OnCpu",
        "on CPUs: no offloading to pinned memory",
        CPU,
    ),
    Change(
        "verl.utils.model",
        "load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code)",
        "verl_plugin.cpu.engines:load_value_model",
        "on CPUs: verl asks for flash attention, whatever the config says",
        MENDED,
        bug=True,
    ),
)

# Modules of ours that register something with one of verl's as soon as that is imported, in every process
REGISTERING = {
    "verl.plugin.platform.platform_manager": "verl_plugin.cpu.platform",
    _ENGINE: "verl_plugin.cpu.engines",
}
