"""All that is changed in verl at run time, and why: one table, which ``hooks`` carries out and ``docs/verl.md`` shows.

A name is written with the parameters of verl's own ("..." for those that we do not touch), so that a test can tell which entry
a new version of verl breaks. What
verl offers for others to fill in (its registries' decorators, abstract methods, class names in its config) is no change of
verl and stands nowhere here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """``name`` in verl's ``module``; ``by`` is ``module:name`` of ours: for ``AFTER_IMPORT`` a function of the module, else what takes
    the place of verl's, or the function that puts it there."""

    module: str
    name: str
    by: str
    why: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name} (changed by {self.by})"


class Instead(Change):
    """``by`` takes the place of verl's own."""


class Around(Change):
    """``by`` is given verl's own, and returns what takes its place."""


def _overridden(by: str, module: str, cls: str, methods: Mapping[str, str]) -> tuple[Change, ...]:
    """``methods``: the reason of each, by its name with parameters."""
    return tuple(Change(module, f"{cls}.{method}", by, why) for method, why in methods.items())


_TRAINER, _ENGINE = "verl.trainer.ppo.v1.trainer_base", "verl.workers.engine.fsdp.transformer_impl"
_CHECKPOINTS = "verl.utils.checkpoint.fsdp_checkpoint_manager"
_ASYNC = "verl.trainer.ppo.v1.trainer_separate_async"

# ---- right after verl has imported the module, in every process of verl's: ``by`` is called with it, but for ``Instead`` and ``Around``

AFTER_IMPORT = (
    Change(
        "verl.plugin.platform.platform_manager",
        "PlatformRegistry",
        "verl_plugin.mends:platform",
        "a platform for CPUs",
    ),
    Change(
        "verl.trainer.ppo.core_algos",
        "ADV_ESTIMATOR_REGISTRY",
        "verl_plugin.mends:estimators",
        "our estimators, in processes without our trainer too",
    ),
    Around(
        "verl.trainer.ppo.core_algos",
        "compute_gae_advantage_return(token_level_rewards, values, response_mask, gamma, lam)",
        "verl_plugin.training.gae:gae_of_actions",
        "over sampled tokens alone: the same bits, four to six times as fast",
    ),
    Instead(
        "verl.trainer.ppo.core_algos",
        "verl_F.masked_whiten(values, mask, shift_mean)",
        "algorithms.masked:whiten",
        "in float64: equal values give exactly 0",
    ),
    Instead(
        "verl.trainer.ppo.v1.trainer_base",
        "apply_kl_penalty(data, kl_ctrl, kl_penalty)",
        "verl_plugin.training.estimators:apply_kl_penalty",
        "verl's mean counts padding rows",
    ),
    Around(
        "verl.trainer.ppo.v1.trainer_base",
        "compute_advantage_for_multi_trajectories"
        "(data, batch_keys, adv_estimator, gamma, lam, num_repeat, norm_adv_by_std_in_grpo, config)",
        "verl_plugin.training.episode_advantages:by_episode",
        "an episode of several rows is one sequence to an estimator",
    ),
    Around(
        "verl.workers.utils.losses",
        "ppo_loss(config, model_output, data, dp_group)",
        "verl_plugin.training.losses:with_methods",
        "losses that need turn ids, loss terms, updates with every token muted",
    ),
    Around(
        "verl.workers.utils.losses",
        "value_loss(config, model_output, data, dp_group)",
        "verl_plugin.value_heads:sum_of_heads",
        "a loss for each head of the critic",
    ),
    Around(
        "verl.utils.model",
        "load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code)",
        "verl_plugin.value_heads:with_heads",
        "critics with several heads",
    ),
    Around(
        "verl.trainer.ppo.v1.replay_buffer",
        "ReplayBuffer.__init__(..., poll_interval)",
        "verl_plugin.mends:often",
        "verl looks every 2 s, too seldom for steps of a small model",
    ),
    Change(
        "verl.experimental.agent_loop.agent_loop",
        "_agent_loop_registry",
        "verl_plugin.mends:agent_loop",
        "our agent loop, in verl's workers",
    ),
    Change(
        "verl.workers.rollout.base",
        "_ROLLOUT_REGISTRY",
        "verl_plugin.mends:rollout_adapter",
        "the trainer's side of our rollout server",
    ),
    Change(
        "verl.workers.rollout.replica",
        "RolloutReplicaRegistry",
        "verl_plugin.mends:rollout_replica",
        "our rollout server",
    ),
    Around(
        _ENGINE,
        "FSDPEngine.forward_backward_batch(self, data, loss_function, forward_only)",
        "verl_plugin.training.losses:with_sums",
        "loss terms are divided by their weights over all passes and devices",
    ),
    Around(
        "verl.workers.engine_workers",
        "ActorRolloutRefWorker.init_model(self)",
        "verl_plugin.training.teacher:with_teacher",
        "a teacher is loaded where verl copies the policy as its reference",
    ),
    Around(
        _ENGINE,
        "FSDPEngineWithValueHead.prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func)",
        "verl_plugin.value_heads:each_head",
        "critics with several heads",
    ),
    Around(
        _ENGINE,
        "FSDPEngine._build_module(self)",
        "verl_plugin.whole_models:whole",
        "a checkpoint that lacks weights is refused, not filled with random ones",
    ),
    Around(
        _ENGINE,
        "FSDPEngine._build_lora_module(self, module)",
        "verl_plugin.lora:seeded",
        "adapters are seeded, and layers that cannot be merged are refused",
    ),
    Instead(
        _ENGINE,
        "FSDPEngine._merged_lora_per_tensor_param(self)",
        "verl_plugin.lora:streamed",
        "weights are sent in the trainer's precision, and merged in a copy",
    ),
    Around(
        _CHECKPOINTS,
        "get_fsdp_full_state_dict(model, offload_to_cpu, rank0_only)",
        "verl_plugin.lora:merged_state",
        "LoRA is saved merged, under the model's names",
    ),
    Around(
        _CHECKPOINTS,
        "FSDPCheckpointManager.save_checkpoint(self, local_path, hdfs_path, global_step, max_ckpt_to_keep)",
        "verl_plugin.lora:with_adapter",
        "saves the adapter too, in PEFT's format",
    ),
    Change(
        _ENGINE,
        "EngineRegistry",
        "verl_plugin.mends:cpu_engines",
        "engines for CPUs",
    ),
    Around(
        "verl.utils.fsdp_utils",
        "fsdp2_sharded_save_to_cpu(model)",
        "verl_plugin.mends:save_copies",
        "on CPUs, verl's copy of the weights is the weights themselves",
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
        "a log that goes on after a restart, for all trackers",
    ),
    Change(
        _TRAINER,
        "compute_data_metrics(batch, use_critic)",
        "verl_plugin.training.tracking:install",
        "the spread of advantages, returns and values",
    ),
    Change(
        _ASYNC,
        "logger",
        "verl_plugin.training.async_trainer:install",
        "verl 0.9.1 hands its logger an argument of print, which ends the run",
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
        "on CPUs: no offloading to pinned memory",
    ),
    Change(
        "verl.utils.model",
        "load_valuehead_model(local_path, torch_dtype, model_config, trust_remote_code)",
        "verl_plugin.cpu.engines:load_value_model",
        "on CPUs: verl asks for flash attention",
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
            "_init_dataloader(self)": "steps with more prompts than games",
            "_next_train_batch(self, num_prompts)": "an environment that keeps failing ends the run",
            "_fetch_one_gen_batch(self)": "prompt ids that repeat",
            "on_step_begin(self)": "numbers a step's prompts, makes its folder",
            _BALANCE: "rows in an order that repeats",
            "_compute_ref_log_prob(self, batch, metrics)": "with LoRA, verl leaves a flag that a critic cannot take",
            "_update_actor(self, batch, metrics)": "tells engines whether rows of zero advantage may be left out",
            "on_train_begin(self)": "our log, and the end of the start watchdog",
            "_save_checkpoint(self)": "logs before it saves, so that a kill loses no metrics",
            "_validate(self)": "metrics of validation episodes",
        },
    ),
    *_overridden(
        "verl_plugin.training.step_methods:Methods",
        _TRAINER,
        "PPOTrainer",
        {
            _BALANCE: "replayed episodes take the place of some of the step's",
            "_compute_values(self, batch, metrics)": "critics with several heads",
            "_compute_advantage(self, batch, metrics)": "filters, estimators over turns, credit, loss terms and buffer",
            "_update_critic(self, batch, metrics)": ("no update where filters left nothing; critics of turns"),
            "_update_actor(self, batch, metrics)": "no update where filters left nothing; loss terms; the update on replayed episodes",
            "_save_checkpoint(self)": "the methods' state",
            "_load_checkpoint(self)": "the methods' state",
        },
    ),
    *_overridden(
        "verl_plugin.training.dynamic_sampling:DynamicSampler",
        "verl.trainer.ppo.v1.replay_buffer",
        "ReplayBuffer",
        {
            "sample(self, global_steps, partition_id, batch_size)": "dynamic sampling that ends, and depends on scores alone"
        },
    ),
    *_overridden(
        "verl_plugin.training.credit_log:CreditLog",
        _TRAINER,
        "PPOTrainer",
        {"_compute_advantage(self, batch, metrics)": "records credit a token"},
    ),
    *_overridden(
        "verl_plugin.training.task_loader:GamesByTask",
        _TRAINER,
        "PPOTrainer",
        {
            "_init_dataloader(self)": "mixtures and curricula",
            "on_train_begin(self)": "mixtures and curricula",
            "on_step_begin(self)": "mixtures and curricula",
        },
    ),
    *_overridden(
        "verl_plugin.training.window_rows:WindowRows",
        _TRAINER,
        "PPOTrainer",
        {
            "_get_required_batch_multiple(self, dp_size)": "as many updates a step as without windows",
            _BALANCE: "no update of padding alone",
            "_update_actor(self, batch, metrics)": "mini-batches of prompts, not of rows",
            "_update_critic(self, batch, metrics)": "mini-batches of prompts, not of rows",
        },
    ),
    *_overridden(
        "verl_plugin.training.async_trainer:AsyncRecords",
        _ASYNC,
        "PPOTrainerSeparateAsync",
        {
            "get_llm_client(self)": "one request id an episode",
            "on_train_begin(self)": "prompts handed out early count as the first step's",
            "_add_batch_to_generate(self)": "no more prompts than will be trained on",
            "_add_prompts_to_generate(self, num_prompts)": "no more prompts than will be trained on",
            "on_step_begin(self)": "records which groups a step trains on",
            _BALANCE: "records which groups a step trains on",
            "_load_checkpoint(self)": "resumes with groups sampled and not yet trained on",
        },
    ),
    *_overridden(
        "verl_plugin.agent_worker:AgentLoopManager",
        "verl.experimental.agent_loop.agent_loop",
        "AgentLoopManager",
        {"_init_agent_loop_workers(self)": "takes worker processes that were started before verl knew their arguments"},
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
        {"as_dict(self)": "one reward a turn, and the turn table"},
    ),
    *_overridden(
        "verl_plugin.rollout.llm_client:EpisodeClient",
        "verl.workers.rollout.llm_server",
        "FullyAsyncLLMServerClient",
        {"_vllm_request_id(self, request_id)": "one request id an episode"},
    ),
    *_overridden(
        "verl_plugin.rollout.llm_client:KeptRoutes",
        "verl.workers.rollout.llm_server",
        "LLMServerClient",
        {
            "_acquire_server(self, request_id, extra)": "the load balancer is asked once an episode, not twice a turn",
            "_release_server(self, server_id, request_id)": "the same",
        },
    ),
    *_overridden(
        "verl_plugin.training.trainer:TurngridTrainer",
        _TRAINER,
        "PPOTrainer",
        {"get_llm_client(self)": "the same"},
    ),
    *_overridden(
        "verl_plugin.sft:EpisodeSFTTrainer",
        "verl.trainer.sft_trainer",
        "SFTTrainer",
        {
            "_build_dataset(self)": "rows made of episodes",
            "_build_dataloader(self)": "the run's seed, and an epoch's last, smaller batch",
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
        "verl_plugin.cpu.packed_rows:PackedRows",
        _ENGINE,
        "FSDPEngineWithValueHead",
        {
            "_build_fsdp_module(self, module)": "attention row by row in a pass without padding, common prefixes once",
            "prepare_model_inputs(self, micro_batch)": "the same",
            "prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func)": "the same",
        },
    ),
    *_overridden(
        "verl_plugin.cpu.packed_rows:PackedLogits",
        _ENGINE,
        "FSDPEngineWithLMHead",
        {
            "prepare_model_outputs(self, output, output_args, micro_batch, logits_processor_func)": "logits before action tokens only"
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
