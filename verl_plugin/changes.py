"""All that is changed in verl at run time, and why: one table, which ``hooks`` carries out and ``docs/verl.md`` shows.

A name is written with the parameters of verl's own ("..." for those that we do not touch), so that a test can tell which entry
a new version of verl breaks. What
verl offers for others to fill in (its registries' decorators, abstract methods, class names in its config) is no change of
verl and stands nowhere here. ``verl_plugin/cpu/start/changes.py`` has a table of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """``name`` in verl's ``module``; ``by`` is ``module:name`` of ours: a function for ``AFTER_IMPORT``, else what takes the
    place of verl's, or the function that puts it there."""

    module: str
    name: str
    by: str
    why: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name} (changed by {self.by})"


def _overridden(by: str, module: str, cls: str, methods: Mapping[str, str]) -> tuple[Change, ...]:
    """``methods``: the reason of each, by its name with parameters."""
    return tuple(Change(module, f"{cls}.{method}", by, why) for method, why in methods.items())


_TRAINER, _ENGINE = "verl.trainer.ppo.v1.trainer_base", "verl.workers.engine.fsdp.transformer_impl"
_CHECKPOINTS = "verl.utils.checkpoint.fsdp_checkpoint_manager"
_ASYNC = "verl.trainer.ppo.v1.trainer_separate_async"

# ---- right after verl has imported the module, in every process of verl's: ``by`` is called with it

AFTER_IMPORT = (
    Change(
        "verl.plugin.platform.platform_manager",
        "PlatformRegistry",
        "verl_plugin.mends:platform",
        "verl has no platform for CPUs",
    ),
    Change(
        "verl.trainer.ppo.core_algos",
        "ADV_ESTIMATOR_REGISTRY",
        "verl_plugin.mends:estimators",
        "our estimators, in processes that never import the plugin's trainer too",
    ),
    Change(
        "verl.trainer.ppo.core_algos",
        "verl_F.masked_whiten(values, mask, shift_mean)",
        "verl_plugin.mends:whitening",
        "in float64: equal values give exactly 0 and not the last bit of their mean times 1e4",
    ),
    Change(
        "verl.trainer.ppo.v1.trainer_base",
        "apply_kl_penalty(data, kl_ctrl, kl_penalty)",
        "verl_plugin.mends:kl_in_reward",
        "verl's mean counts the dummy rows that it pads a batch with",
    ),
    Change(
        "verl.trainer.ppo.v1.trainer_base",
        "compute_advantage_for_multi_trajectories"
        "(data, batch_keys, adv_estimator, gamma, lam, num_repeat, norm_adv_by_std_in_grpo, config)",
        "verl_plugin.mends:advantages_by_episode",
        "an episode of several rows is one sequence to an estimator",
    ),
    Change(
        "verl.workers.utils.losses",
        "ppo_loss(config, model_output, data, dp_group)",
        "verl_plugin.mends:policy_loss",
        "loss forms that need turn ids, loss terms, and updates in which every token is muted",
    ),
    Change(
        "verl.workers.utils.losses",
        "value_loss(config, model_output, data, dp_group)",
        "verl_plugin.mends:value_loss",
        "a critic with several heads has a loss for each, at its own tokens",
    ),
    Change(
        "verl.utils.model",
        "load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code)",
        "verl_plugin.mends:value_heads",
        "verl's critic has one head whatever its config says",
    ),
    Change(
        "verl.trainer.ppo.v1.replay_buffer",
        "ReplayBuffer.__init__(..., poll_interval)",
        "verl_plugin.mends:poll_interval",
        "looking every 2 s is a floor under every step of a small model",
    ),
    Change(
        "verl.experimental.agent_loop.agent_loop",
        "_agent_loop_registry",
        "verl_plugin.mends:agent_loop",
        "our agent loop, in workers that import nothing else of the plugin",
    ),
    Change(
        "verl.workers.rollout.base",
        "_ROLLOUT_REGISTRY",
        "verl_plugin.mends:rollout_adapter",
        "the trainer's side of our rollout server; verl has no way to register one",
    ),
    Change(
        "verl.workers.rollout.replica",
        "RolloutReplicaRegistry",
        "verl_plugin.mends:rollout_replica",
        "our rollout server, for machines without vLLM",
    ),
    Change(
        _ENGINE,
        "FSDPEngine.forward_backward_batch(self, data, loss_function, forward_only)",
        "verl_plugin.mends:sums_of_terms",
        "a loss term is divided by its weights over all passes and devices, which only the engine sees together",
    ),
    Change(
        "verl.workers.engine_workers",
        "ActorRolloutRefWorker.init_model(self)",
        "verl_plugin.mends:teacher",
        "the reference policy is a copy of the policy, and a teacher is another model",
    ),
    Change(
        _ENGINE,
        "FSDPEngineWithValueHead.prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func)",
        "verl_plugin.mends:value_outputs",
        "verl takes a critic to say one number a token",
    ),
    Change(
        _ENGINE,
        "FSDPEngine._build_module(self)",
        "verl_plugin.mends:whole_models",
        "transformers fills in random numbers where a checkpoint lacks weights",
    ),
    Change(
        _ENGINE,
        "FSDPEngine._build_lora_module(self, module)",
        "verl_plugin.mends:lora_adapters",
        "verl draws adapters without a seed, and takes layers that cannot be merged",
    ),
    Change(
        _ENGINE,
        "FSDPEngine._merged_lora_per_tensor_param(self)",
        "verl_plugin.mends:lora_weights",
        "verl sends bfloat16 whatever the trainer computes in, and merges in place",
    ),
    Change(
        _CHECKPOINTS,
        "get_fsdp_full_state_dict(model, offload_to_cpu, rank0_only)",
        "verl_plugin.mends:lora_saved_merged",
        "verl saves LoRA under PEFT's names, which load as random weights",
    ),
    Change(
        _CHECKPOINTS,
        "FSDPCheckpointManager.save_checkpoint(self, local_path, hdfs_path, global_step, max_ckpt_to_keep)",
        "verl_plugin.mends:lora_saved_alone",
        "the adapter too, in PEFT's format",
    ),
    Change(
        _ENGINE,
        "EngineRegistry",
        "verl_plugin.mends:cpu_engines",
        "verl has no engines for CPUs",
    ),
    Change(
        "verl.utils.fsdp_utils",
        "fsdp2_sharded_save_to_cpu(model)",
        "verl_plugin.mends:save_copies",
        "where weights are on the CPU already, verl's copy of them is the weights themselves",
    ),
)

# ---- by assignment, in the process that needs it

REPLACED = (
    Change(
        _TRAINER,
        "TRAINER_REGISTRY",
        "verl_plugin.training.trainer:install",
        "our trainers for sync, colocate_async and separate_async",
    ),
    Change(
        _TRAINER,
        "Tracking",
        "verl_plugin.training.tracking:RunTracking",
        "verl's file log starts anew on a restart; ours goes on, and trackers follow it",
    ),
    Change(
        _TRAINER,
        "compute_data_metrics(batch, use_critic)",
        "verl_plugin.training.tracking:install",
        "the spread of advantages, returns and values, which verl leaves out",
    ),
    Change(
        _ASYNC,
        "logger",
        "verl_plugin.training.async_trainer:install",
        "verl 0.9.1 hands its logger an argument of print, and the run ends there",
    ),
    Change(
        "verl.trainer.sft_trainer",
        "Tracking",
        "verl_plugin.sft:Tracking",
        "as in the RL trainer",
    ),
    Change(
        _ENGINE,
        "prepare_micro_batches"
        "(data, dp_group, num_batches_divided_by, same_micro_num_in_dp, min_num_micro_batch, use_dynamic_bsz_balance)",
        "verl_plugin.cpu.micro_batches:prepare",
        "on CPUs: rows that begin alike share a pass, and rows without a gradient have none",
    ),
    Change(
        _ENGINE,
        "CPUOffloadPolicy",
        "verl_plugin.cpu.engines:_OnCpu",
        "on CPUs: verl offloads a reference policy to pinned memory, which needs an accelerator",
    ),
    Change(
        "verl.utils.model",
        "load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code)",
        "verl_plugin.cpu.engines:load_value_model",
        "on CPUs: verl asks for flash attention whatever the config says",
    ),
)

# ---- overridden in subclasses of ours

_BALANCE = "_balance_batch(self, batch, metrics, logging_prefix, keep_minibatch)"

OVERRIDDEN = (
    *_overridden(
        "verl_plugin.training.trainer:StepRecords",
        _TRAINER,
        "PPOTrainer",
        {
            "_init_dataloader(self)": "verl divides by the steps of an epoch, 0 where a step has more prompts than games",
            "_next_train_batch(self, num_prompts)": "an environment that fails again and again ends the run",
            "_fetch_one_gen_batch(self)": "prompt ids from (step, index): verl's are random",
            "on_step_begin(self)": "numbers a step's prompts; makes its folder",
            _BALANCE: "rows in the order of (prompt, sample): verl's are in order of arrival",
            "_compute_ref_log_prob(self, batch, metrics)": "with LoRA, verl leaves a flag in the batch that a critic cannot take",
            "_update_actor(self, batch, metrics)": "tells engines whether rows of zero advantage may be left out",
            "on_train_begin(self)": "puts our log before verl's; the start watchdog stops",
            "_save_checkpoint(self)": "log first, save then: a kill in between would lose the step's metrics",
            "_validate(self)": "figures of the validation's episodes",
        },
    ),
    *_overridden(
        "verl_plugin.training.step_methods:Methods",
        _TRAINER,
        "PPOTrainer",
        {
            _BALANCE: "earlier episodes in the place of some of this step's, before anything is computed of them",
            "_compute_values(self, batch, metrics)": "the values of further heads",
            "_compute_advantage(self, batch, metrics)": "filters, estimators over turns, credit, loss terms and buffer",
            "_update_critic(self, batch, metrics)": (
                "none where filters left nothing to learn from; a critic of turns is trained on some of the action tokens only"
            ),
            "_update_actor(self, batch, metrics)": "the same; what terms need goes with the batch; the update on replayed episodes",
            "_save_checkpoint(self)": "the methods' state",
            "_load_checkpoint(self)": "the methods' state",
        },
    ),
    *_overridden(
        "verl_plugin.training.dynamic_sampling:DynamicSampler",
        "verl.trainer.ppo.v1.replay_buffer",
        "ReplayBuffer",
        {
            "sample(self, global_steps, partition_id, batch_size)": "dynamic sampling that ends, and that depends on the scores alone"
        },
    ),
    *_overridden(
        "verl_plugin.training.credit_log:CreditLog",
        _TRAINER,
        "PPOTrainer",
        {"_compute_advantage(self, batch, metrics)": "the record of what an update was told of each token"},
    ),
    *_overridden(
        "verl_plugin.training.task_loader:GamesByTask",
        _TRAINER,
        "PPOTrainer",
        {
            "_init_dataloader(self)": "which task comes next depends on mixture and curriculum",
            "on_train_begin(self)": "the same, for prompts that are handed out before the first step",
            "on_step_begin(self)": "the curriculum's step",
        },
    ),
    *_overridden(
        "verl_plugin.training.window_rows:WindowRows",
        _TRAINER,
        "PPOTrainer",
        {
            "_get_required_batch_multiple(self, dp_size)": "as many updates a step with windows as with one row an episode",
            _BALANCE: "no update gets padding and nothing else",
            "_update_actor(self, batch, metrics)": "verl takes a mini-batch to be prompts x n rows",
            "_update_critic(self, batch, metrics)": "the same",
        },
    ),
    *_overridden(
        "verl_plugin.training.async_trainer:AsyncRecords",
        _ASYNC,
        "PPOTrainerSeparateAsync",
        {
            "get_llm_client(self)": "all turns of an episode have one request id at our server",
            "on_train_begin(self)": "prompts handed out before the first step count as that step's",
            "_add_batch_to_generate(self)": "no more prompts than the steps to come train on",
            "_add_prompts_to_generate(self, num_prompts)": "the same, for refills",
            "on_step_begin(self)": "which groups this step trains on",
            _BALANCE: "the same: the first thing that is done with rows that were picked",
            "_load_checkpoint(self)": "groups that were played and not yet trained on",
        },
    ),
    *_overridden(
        "verl_plugin.agent_worker:AgentLoopManager",
        "verl.experimental.agent_loop.agent_loop",
        "AgentLoopManager",
        {"_init_agent_loop_workers(self)": "workers whose process outlives a rollout server and keeps its weights"},
    ),
    *_overridden(
        "verl_plugin.rollout.agent_worker:AgentLoopWorker",
        "verl.trainer.ppo.v1",
        "AgentLoopWorkerTQ",
        {
            "generate_sequences(self, batch)": "whole groups, in lockstep where a run must repeat",
            "_run_prompt(self, prompt, sampling_params, trajectory, trace)": "a group in which a sample failed writes no rows",
        },
    ),
    *_overridden(
        "verl_plugin.rollout.agent_loop:RowOutput",
        "verl.experimental.agent_loop.agent_loop",
        "AgentLoopOutput",
        {"as_dict(self)": "one reward a turn, where verl has one a row; the columns of the turn table"},
    ),
    *_overridden(
        "verl_plugin.rollout.llm_client:EpisodeClient",
        "verl.workers.rollout.llm_server",
        "FullyAsyncLLMServerClient",
        {"_vllm_request_id(self, request_id)": "our server keeps an episode's prefix under one id"},
    ),
    *_overridden(
        "verl_plugin.sft:EpisodeSFTTrainer",
        "verl.trainer.sft_trainer",
        "SFTTrainer",
        {
            "_build_dataset(self)": "rows made of episodes",
            "_build_dataloader(self)": "the run's seed; verl's loader drops an epoch's last, smaller batch",
        },
    ),
    *_overridden(
        "verl_plugin.cpu.engines:_OnCpu",
        _ENGINE,
        "FSDPEngineWithLMHead",
        {
            "forward_backward_batch(self, data, loss_function, forward_only)": "threads; passes of our own",
            "prepare_model_inputs(self, micro_batch)": "half of the attention matrix instead of all of it",
            "_build_fsdp_module(self, module)": "no offloading to pinned memory",
        },
    ),
    *_overridden(
        "verl_plugin.cpu.action_logits:ActionLogits",
        _ENGINE,
        "FSDPEngineWithLMHead",
        {
            "_build_fsdp_module(self, module)": "logits of action tokens only, which are a tenth of a row",
            "prepare_model_inputs(self, micro_batch)": "the same",
            "prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func)": "the same",
        },
    ),
    *_overridden(
        "verl_plugin.cpu.shared_prefixes:SharedPrefixes",
        _ENGINE,
        "FSDPEngineWithLMHead",
        {
            "_build_fsdp_module(self, module)": "attention by rows in a pass without padding, where what rows begin with stands once",
            "prepare_model_inputs(self, micro_batch)": "the same",
            "prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func)": "the same",
        },
    ),
    *_overridden(
        "verl_plugin.cpu.engines:CpuValueModel",
        _ENGINE,
        "FSDPEngineWithValueHead",
        {"_build_module(self)": "the value head starts from the run's seed"},
    ),
    *_overridden(
        "verl_plugin.cpu.platform:CpuPlatform",
        "verl.plugin.platform.platform_base",
        "PlatformBase",
        {
            "is_platform_available(self, use_smi_check)": "chosen by VERL_PLATFORM alone",
            "ray_resource_options(self, num_gpus)": "Ray counts a logical GPU a training process",
        },
    ),
)

CHANGES = (*AFTER_IMPORT, *REPLACED, *OVERRIDDEN)
