"""What is replaced in verl's modules: ``{module: {name of verl's: "module:name" of ours}}``.

The docstring of ours says why, and after "Until" when it goes; ``docs/verl.md`` shows both. What
verl offers for others to fill in (registries, abstract methods, class names in its config) is no
change of verl. Methods of verl's that our classes override are found from the classes
(``verl_plugin.overrides``).
"""

from __future__ import annotations

Table = dict[str, dict[str, str]]

_TRAINER, _ENGINE = "verl.trainer.ppo.v1.trainer_base", "verl.workers.engine.fsdp.transformer_impl"

# ---- by ``hooks``, in every process of verl's, right after it has imported the module

# Ours is called with verl's own and returns what takes its place
WRAPPED: Table = {
    _TRAINER: {
        "compute_advantage_for_multi_trajectories": "verl_plugin.training.episode_advantages:by_episode",
        "compute_data_metrics": "verl_plugin.training.tracking:with_moments",
    },
    "verl.trainer.ppo.v1.trainer_separate_async": {"logger": "verl_plugin.mends:without_flush"},
    "verl.workers.rollout.base": {"_ROLLOUT_REGISTRY": "verl_plugin.mends:with_our_server"},
    "verl.workers.utils.losses": {
        "ppo_loss": "verl_plugin.training.losses:with_methods",
        "value_loss": "verl_plugin.value_heads:sum_of_heads",
    },
    "verl.utils.model": {"load_valuehead_model": "verl_plugin.value_heads:with_heads"},
    _ENGINE: {
        "FSDPEngineWithValueHead.prepare_model_outputs": "verl_plugin.value_heads:each_head",
        "FSDPEngine.forward_backward_batch": "verl_plugin.training.losses:with_sums",
        "FSDPEngine._build_module": "verl_plugin.whole_models:whole",
        "FSDPEngine._build_lora_module": "verl_plugin.lora:seeded",
    },
    "verl.utils.checkpoint.fsdp_checkpoint_manager": {
        "get_fsdp_full_state_dict": "verl_plugin.lora:merged_state",
        "FSDPCheckpointManager.save_checkpoint": "verl_plugin.lora:with_adapter",
    },
    "verl.workers.engine_workers": {"ActorRolloutRefWorker.init_model": "verl_plugin.training.teacher:with_teacher"},
    "verl.utils.fsdp_utils": {"fsdp2_sharded_save_to_cpu": "verl_plugin.mends:save_copies"},
}

# Ours takes the place of verl's own
REPLACED: Table = {
    "verl.trainer.ppo.core_algos": {"verl_F.masked_whiten": "algorithms.pools:whiten"},
    _TRAINER: {
        "apply_kl_penalty": "verl_plugin.training.estimators:apply_kl_penalty",
        "Tracking": "verl_plugin.training.tracking:RunTracking",
    },
    _ENGINE: {"FSDPEngine._merged_lora_per_tensor_param": "verl_plugin.lora:streamed"},
}

# Modules of ours that register something with one of verl's as soon as that is imported
REGISTERING = {
    "verl.plugin.platform.platform_manager": "verl_plugin.cpu.platform",
    _ENGINE: "verl_plugin.cpu.engines",
}

# ---- by our own code, in the process that needs it

IN_PROCESS: Table = {
    _TRAINER: {"TRAINER_REGISTRY": "verl_plugin.training.task:train"},
    "verl.trainer.sft_trainer": {"Tracking": "verl_plugin.sft:Tracking"},
    "verl.utils.model": {"get_hf_auto_model_class": "verl_plugin.whole_models:whole"},
}

ON_CPUS: Table = {
    _ENGINE: {
        "prepare_micro_batches": "verl_plugin.cpu.micro_batches:prepare",
        "CPUOffloadPolicy": "verl_plugin.cpu.engines:_OnCpu._build_fsdp_module",
    },
    "verl.utils.model": {"load_valuehead_model": "verl_plugin.cpu.engines:load_value_model"},
}
