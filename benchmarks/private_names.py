"""Private names of other projects that our code uses, and what it sets in their objects.

``tests/test_private_names.py`` fails for a name that is missing here, or here in vain. Methods of
verl that our classes override are found by ``benchmarks/verl_overrides.py``; docs/verl.md shows
both.
"""

SHOWN = "docs/verl.md has the reason"

_PARTS = "It is a part of verl's step. Until verl's trainer has public names for them"
_BUFFER = "The sampler waits and drops groups as verl's buffer does. Until the buffer has public methods for that"
_TABLES = "It carries out the tables of docs/verl.md. Until these are empty"
_ROWS = "It holds our rows in our order. Until verl's SFT trainer takes token ids, and has keys for their order"
_MODEL = "verl.utils.config.omega_conf_to_dataclass()"
_AVERAGE = "The average of weights lives as long as verl's engine. Until an engine holds the state of a plugin"
_ENGINE = "verl.workers.engine.fsdp.transformer_impl"

# file -> name -> reason and end; a name that is set ends in " ="
PRIVATE_NAMES: dict[str, dict[str, str]] = {
    "config/base.py": {
        "_generated_ppo_trainer.yaml": (
            "It is `ppo_trainer` as verl's own script composes it, which Hydra would do again at each start. "
            "Until verl installs it under a public name"
        ),
    },
    "envs/alfworld/env.py": {
        "sys.argv =": "The planner's translator replaces it, and we put it back. Until the translator leaves it alone",
    },
    "envs/bfcl/env.py": {
        "service._load_scenario": "BFCL's own evaluation calls it. Until its services take a scenario in public",
    },
    "envs/tau2/environment.py": {
        "sys.modules['tau2'] =": (
            "tau2's `__init__` imports clients of model providers, which a ticket does not need. "
            "Until it imports them when they are used"
        ),
    },
    "envs/textarena/environment.py": {
        "self.game._get_percentage_completion": "It is a game's score. Until textarena has a public name for it",
    },
    "verl_plugin/averaged.py": {"engine.NAME =": _AVERAGE},
    "verl_plugin/changes.py": {"owner.own =": _TABLES, "module.name =": _TABLES},
    "verl_plugin/cpu/engines.py": {
        f"{_ENGINE}.prepare_micro_batches =": SHOWN,
        f"{_ENGINE}.CPUOffloadPolicy =": SHOWN,
        f"{_ENGINE}.MixedPrecisionPolicy =": SHOWN,
        "verl.utils.model.load_valuehead_model =": SHOWN,
    },
    "verl_plugin/cpu/packed_rows.py": {
        "config._attn_implementation": "Other kinds of attention stay. Until transformers has a public name for it",
    },
    "verl_plugin/cpu/platform.py": {
        "torch.distributed.init_process_group =": (
            "verl asks for the backend `cpu:gloo,cpu:gloo`. Until verl has a platform for CPUs"
        ),
    },
    "verl_plugin/rollout/agent_worker.py": {
        f"{_MODEL}.tokenizer.chat_template =": (
            "verl gives a custom template to a model's processor alone, if it has one. Until the tokenizer gets it too"
        ),
    },
    "verl_plugin/servers/transformers_server/replica.py": {
        "self.workers[0].__ray_call__": (
            "Ray's call of a function in an actor, for libraries. Until verl's workers tell their node and their GPU"
        ),
    },
    "verl_plugin/servers/vllm_cpu.py": {
        "vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm =": (
            "vLLM's CPU build drops a layer's weights, to which verl's weight sync writes. Until vLLM keeps them"
        ),
    },
    "verl_plugin/sft.py": {
        "verl.trainer.sft_trainer.Tracking =": SHOWN,
        **{f"self.{name} =": _ROWS for name in ("train_dataset", "val_dataset", "train_dataloader")},
        **{f"self.{name} =": _ROWS for name in ("train_sampler", "train_sampler.seed")},
    },
    "verl_plugin/training/dynamic_sampling.py": {
        name: _BUFFER
        for name in (
            "self._clear_groups",
            "self._materialize_batch",
            "self._sync_metadata_from_transfer_queue",
            "self._wait_for_next_poll",
        )
    },
    "verl_plugin/training/trainer.py": {
        **{
            f"self.{name}": _PARTS
            for name in (
                "_balance_batch",
                "_compute_advantage",
                "_compute_ref_log_prob",
                "_compute_reward_colocate",
                "_compute_values",
                "_update_actor",
                "_update_critic",
            )
        },
        "self.actor_rollout_wg =": (
            "A stand-in adds the contexts of methods to one pass. Until a plugin may add sequences to a pass of verl's"
        ),
        "self.logger.log =": (
            "A step is logged with our metrics, and only then saved. Until verl logs first, after a hook"
        ),
        "self.replay_buffer.poll_interval =": (
            "verl's 2 s between polls exceed a small model's step. Until verl's config has a key for it"
        ),
        "self.steps_per_epoch =": (
            "With fewer games than prompts in a step it is 0, by which verl divides (a bug). Until verl fixes it"
        ),
        "self.train_dataloader =": (
            "Mixtures and curricula choose a step's prompts. Until verl's data loader lets a plugin do that"
        ),
    },
    "verl_plugin/whole_models.py": {
        "verl.utils.model.get_hf_auto_model_class =": SHOWN,
        f"{_MODEL}.mtp =": (
            "The teacher keeps what verl set in the config that we replace. "
            "Until verl's reference policy has a path of its own"
        ),
    },
}
